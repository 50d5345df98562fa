# Compiler settings and the three functions that every CMakeLists.txt of this project uses:
#   gpunode_module(name FOLDER dir [DEPENDS modules] [LIBRARIES targets])   an object library
#   gpunode_archive()                                                       all modules in one archive
#   gpunode_program(name MODULES modules SOURCES files [LIBRARIES targets]) an executable
# A module takes every .cpp of its folder; its DEPENDS repeat the brackets of the house's layers,
# and tests/house checks the includes against them.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O2 keeps the checks of GPUNODE_CHECK (always on); contraction is off everywhere because the
# bits of a sum may not depend on what a compiler fuses.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# What turns a fault that somebody could use into an end of the process: guarded stacks, checked
# copies, jumps and tables that cannot be bent, addresses that nobody knows before. Not beside
# sanitizers, which guard all of it closer; not for nvcc's device code, which has none of it.
# tests/house/hardening.py looks for them in the programs.
include(CheckCXXCompilerFlag)
if(NOT GPUNODE_SANITIZE)
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER GPUNODE_HAS${flag} known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${flag}>)
    endif()
  endforeach()
  # Undefined first, as some compilers define it themselves; without optimisation it only warns.
  set(fortified $<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>)
  add_compile_options($<${fortified}:-U_FORTIFY_SOURCE> $<${fortified}:-D_FORTIFY_SOURCE=2>)
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
endif()
if(GPUNODE_SANITIZE)
  add_compile_options(-fsanitize=${GPUNODE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GPUNODE_SANITIZE})
endif()
# Most of what a compiler does for a file is for the headers that all files share: four files at a time
# take half of it. The preset debug compiles each alone, for tools that look at single files.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "compile several files of a target at a time")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 4)
find_program(GPUNODE_CCACHE ccache)
if(GPUNODE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GPUNODE_CCACHE})
endif()


function(gpunode_module name)
  cmake_parse_arguments(ARG "" "FOLDER" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER}/*.cpp
       ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER}/detail/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "module ${name} has no files in ${ARG_FOLDER}/: it comes with its first one")
  endif()
  add_library(gpunode_${name} OBJECT ${sources})
  # Each of them calls the namespace of its schema `wire`.
  set(codecs ${sources})
  list(FILTER codecs INCLUDE REGEX "_codec\\.cpp$")
  set_source_files_properties(${codecs} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(gpunode_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>)
  target_link_libraries(gpunode_${name} PUBLIC Threads::Threads ${ARG_LIBRARIES})
  set(closure ${name})
  foreach(dependency IN LISTS ARG_DEPENDS)
    if(dependency STREQUAL "schemas")
      add_dependencies(gpunode_${name} gpunode_schemas)
    else()
      target_link_libraries(gpunode_${name} PUBLIC gpunode_${dependency})
      get_property(below GLOBAL PROPERTY GPUNODE_CLOSURE_${dependency})
      list(APPEND closure ${below})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY GPUNODE_CLOSURE_${name} "${closure}")
  set_property(GLOBAL PROPERTY GPUNODE_LIBRARIES_${name} "${ARG_LIBRARIES}")
  set_property(GLOBAL PROPERTY GPUNODE_DEPENDS_${name} "${ARG_DEPENDS}")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER})
  set_property(GLOBAL PROPERTY GPUNODE_FOLDER_${name} "${folder}")
  set_property(GLOBAL APPEND PROPERTY GPUNODE_MODULES ${name})
endfunction()

# The objects and libraries of some modules and of everything below them.
function(gpunode_link target)
  set(all "")
  foreach(module IN LISTS ARGN)
    get_property(closure GLOBAL PROPERTY GPUNODE_CLOSURE_${module})
    list(APPEND all ${closure})
  endforeach()
  list(REMOVE_DUPLICATES all)
  foreach(module IN LISTS all)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:gpunode_${module}>)
    get_property(libraries GLOBAL PROPERTY GPUNODE_LIBRARIES_${module})
    target_link_libraries(${target} PRIVATE ${libraries})
  endforeach()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  add_dependencies(${target} gpunode_schemas)
endfunction()

function(gpunode_program name)
  cmake_parse_arguments(ARG "" "" "MODULES;SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  gpunode_link(${name} ${ARG_MODULES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
endfunction()

function(gpunode_archive)
  get_property(modules GLOBAL PROPERTY GPUNODE_MODULES)
  add_library(gpunode_archive STATIC)
  set_target_properties(gpunode_archive PROPERTIES OUTPUT_NAME gpunode EXPORT_NAME gpunode)
  gpunode_link(gpunode_archive ${modules})
endfunction()
