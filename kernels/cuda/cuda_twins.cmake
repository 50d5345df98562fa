# Adds the CUDA twins to gpunode_cuda if nvcc 12 or newer is here; says in one line what it did.
# CMake 3.25 does not know C++20 for nvcc 13, so the standard is passed by hand; the runtime is
# linked statically (it opens the driver itself) and cuBLASLt is opened at run time, so that the binary
# starts where neither is.
# Included and not a function, as enable_language works in the scope of its caller.
find_program(GPUNODE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
if(NOT GPUNODE_NVCC)
  message(STATUS "CUDA twins: skipped, no nvcc found (looked in PATH and /usr/local/cuda/bin)")
  return()
endif()
execute_process(COMMAND ${GPUNODE_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" release "${text}")
if(NOT release OR CMAKE_MATCH_1 LESS 12)
  message(STATUS "CUDA twins: skipped, ${GPUNODE_NVCC} is older than 12 (${release})")
  return()
endif()
# Machine code for Ampere, Hopper and Blackwell's desktop kind; 90's PTX is for the generations between,
# which cannot run that of 120.
set_property(GLOBAL PROPERTY GPUNODE_CUDA_MAJOR ${CMAKE_MATCH_1})
set(architectures 80-real 90)
set(majors 8,9)
if("${CMAKE_MATCH_1}.${CMAKE_MATCH_2}" VERSION_GREATER_EQUAL 12.8)
  list(APPEND architectures 120)
  string(APPEND majors ,12)
endif()
set(CMAKE_CUDA_COMPILER ${GPUNODE_NVCC})
set(CMAKE_CUDA_ARCHITECTURES ${architectures})
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked below, by the programs and the archive
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD_DEFAULT "")  # CMake is to add no -std of its own
find_package(CUDAToolkit REQUIRED)
find_package(Threads REQUIRED)

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/toolkit/*.cpp
     ${CMAKE_CURRENT_LIST_DIR}/toolkit/*.cu)
target_sources(gpunode_cuda PRIVATE ${sources})
target_compile_definitions(gpunode_cuda PRIVATE GPUNODE_HAS_CUDA)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/toolkit/cuda_backend.cpp PROPERTIES
                            COMPILE_DEFINITIONS "GPUNODE_CUDA_MAJORS=${majors}")
target_include_directories(gpunode_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_options(gpunode_cuda PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-std=c++20 --fmad=false -Xcompiler=-Wall>")
set_target_properties(gpunode_cuda PROPERTIES CUDA_ARCHITECTURES "${architectures}")
set(runtime ${CUDA_cudart_static_LIBRARY} ${CMAKE_DL_LIBS} rt)
get_property(libraries GLOBAL PROPERTY GPUNODE_LIBRARIES_cuda)
set_property(GLOBAL PROPERTY GPUNODE_LIBRARIES_cuda ${libraries} ${runtime})
list(JOIN architectures ", " shown)
message(STATUS "CUDA twins: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${shown}")
