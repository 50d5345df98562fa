# Every foreign library, found in one place; all are Debian packages (tools/packages.sh).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(FlatBuffers REQUIRED)
find_package(cppzmq REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(CAF 0.17.6 REQUIRED)
find_package(OneDNN REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(oniguruma REQUIRED IMPORTED_TARGET oniguruma)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

# Debian's libraries are built without the thread sanitizer, which reports what they synchronise
# and hand over as races.
if(GPUNODE_SANITIZE MATCHES "thread")
  get_target_property(zmq_library libzmq LOCATION)
  foreach(library ${CAF_core_LIBRARY} ${zmq_library})
    string(FIND ${library} ${CMAKE_SOURCE_DIR}/build/tsan-libraries/ found)
    if(NOT found EQUAL 0)
      message(FATAL_ERROR "${library} is built without the thread sanitizer: run "
                          "tools/tsan_libraries.sh, then cmake --preset tsan --fresh")
    endif()
  endforeach()
endif()
