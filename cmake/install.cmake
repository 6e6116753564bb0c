# The files that `cmake --install` and ./dev package install: the two programs in one folder, where they look for each
# other; the Python package; man pages and completions, which the program writes itself; documents with their links
# intact, examples, and the systemd unit of docs/deploy.md.
include(GNUInstallDirs)

install(TARGETS paceline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(PACELINE_TORCH)
  install(TARGETS paceline-torch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${CMAKE_BINARY_DIR}/manual/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/ARCHITECTURE.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
              ${PROJECT_SOURCE_DIR}/LICENSE
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        PATTERN __pycache__ EXCLUDE)

# The Python package, where Debian's Python looks for packages of the system.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/paceline DESTINATION lib/python3/dist-packages
        PATTERN __pycache__ EXCLUDE PATTERN bin EXCLUDE)

# systemd finds a program without a path in /usr/local/bin and /usr/bin.
file(READ ${PROJECT_SOURCE_DIR}/docs/deploy.md deploy)
if(NOT deploy MATCHES "\n(\\[Unit\\]\n.*\nWantedBy=multi-user.target\n)")
  message(FATAL_ERROR "docs/deploy.md has no systemd unit to install")
endif()
string(REPLACE "ExecStart=/usr/local/bin/" "ExecStart=" unit "${CMAKE_MATCH_1}")
file(CONFIGURE OUTPUT paceline-node.service CONTENT "${unit}" @ONLY NEWLINE_STYLE UNIX)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/paceline-node.service DESTINATION lib/systemd/system)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/deploy.md)

# The person who makes a package is its maintainer: ./dev package sets the name.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains one neural network over machines of unequal and changing speed")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Paceline <root@localhost>" CACHE STRING "NAME <ADDRESS> of a package's maintainer")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Any BLAS works; with Debian's default one the built-in models train half as fast.
# `paceline data` runs curl.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libopenblas0-openmp, python3, curl, ca-certificates")
# The PyTorch of the Python package; another PyTorch works too.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
