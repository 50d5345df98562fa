# What `cmake --install` lays down: the archive, the binary, the headers an embedder may include and
# the config package behind find_package(gpunode). Headers keep their folders under include/gpunode,
# so that "actors/node/node.hpp" is spelt the same inside and outside of this project.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(GPUNODE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/gpunode)

target_include_directories(gpunode_archive INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gpunode>)
target_compile_features(gpunode_archive INTERFACE cxx_std_20)
install(TARGETS gpunode_archive EXPORT gpunode ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET gpunode)
  install(TARGETS gpunode gpunode-carrier RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT gpunode NAMESPACE gpunode:: FILE gpunode-targets.cmake
        DESTINATION ${GPUNODE_PACKAGE_DIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/gpunode-config.cmake.in
  ${PROJECT_BINARY_DIR}/gpunode-config.cmake INSTALL_DESTINATION ${GPUNODE_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpunode-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpunode-config.cmake
              ${PROJECT_BINARY_DIR}/gpunode-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindCAF.cmake ${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake
        DESTINATION ${GPUNODE_PACKAGE_DIR})

# The set of headers is what the faces include, found at install time, so that it is never stale.
install(CODE "
  set(source \"${PROJECT_SOURCE_DIR}\")
  set(destination \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/gpunode\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake\")")

# A node as a service, for where systemd is.
configure_file(${PROJECT_SOURCE_DIR}/tools/systemd/gpunode.service.in
               ${PROJECT_BINARY_DIR}/gpunode.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpunode.service DESTINATION ${CMAKE_INSTALL_DATADIR}/gpunode/systemd)

# Job files to begin with; `gpunode help job` names the folder.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/jobs DESTINATION ${CMAKE_INSTALL_DATADIR}/gpunode)
