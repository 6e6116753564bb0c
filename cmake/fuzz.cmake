# paceline_fuzz(NAME SOURCES … CORPUS FOLDER DEPS …): a libFuzzer program beside the reader that it feeds. CORPUS
# holds the inputs that it starts from. Only with PACELINE_FUZZ, which needs clang. ./dev fuzz runs all targets that
# are registered here: each is a line "NAME CORPUS" of fuzz_targets.txt in the build folder.
set_property(GLOBAL PROPERTY paceline_fuzz_targets "")

if(PACELINE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "libFuzzer is part of clang; configure with the preset asan")
  endif()
  # The libraries report their coverage; only the programs get libFuzzer's main.
  set(paceline_library_options -fsanitize=fuzzer-no-link)
  add_custom_target(fuzz_targets)
endif()

function(paceline_fuzz name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  paceline_note_target(${name} tests "${ARG_SOURCES}" "${ARG_DEPS}")
  if(NOT PACELINE_FUZZ)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE paceline_options)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE paceline_${dep})
  endforeach()
  add_dependencies(fuzz_targets ${name})
  file(RELATIVE_PATH corpus ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS})
  set_property(GLOBAL APPEND_STRING PROPERTY paceline_fuzz_targets "${name} ${corpus}\n")
endfunction()

# Call this after all folders are added.
function(paceline_list_fuzz_targets)
  get_property(targets GLOBAL PROPERTY paceline_fuzz_targets)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/fuzz_targets.txt CONTENT "${targets}")
endfunction()
