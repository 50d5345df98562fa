# Run by `cmake --install`: copies the public faces and every header of ours that they include.
# Reads `source` (the project's root) and `destination`. Private headers stay out of the package.
cmake_policy(VERSION 3.23)
file(GLOB pending RELATIVE ${source}
  ${source}/actors/node/node.hpp ${source}/actors/node/node_*.hpp ${source}/kernels/model/*.hpp
  ${source}/kernels/ops/*.hpp ${source}/kernels/cpu/cpu_backend.hpp
  ${source}/runtime/base/log.hpp)
set(done "")
while(pending)
  list(POP_FRONT pending header)
  if(header IN_LIST done)
    continue()
  endif()
  list(APPEND done ${header})
  get_filename_component(folder ${header} DIRECTORY)
  file(INSTALL ${source}/${header} DESTINATION ${destination}/${folder})
  file(STRINGS ${source}/${header} lines REGEX "^#include \"[a-z_]+/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
    if(NOT EXISTS ${source}/${included})
      message(FATAL_ERROR "${header} is public but includes \"${included}\", which is not a source: "
                          "keep generated headers out of public ones")
    endif()
    list(APPEND pending ${included})
  endforeach()
endwhile()
