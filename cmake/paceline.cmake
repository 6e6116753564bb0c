# paceline_library(NAME [COLD] SOURCES … DEPS …): one folder, one target. Its DEPS are all it may include, so the link
# lists are the dependency graph and a cycle cannot link. check_includes.cmake sees to that. COLD: it waits for people, files
# and peers more than it computes. It is compiled with -O1, where GCC needs a third less time; a round and a commit take as
# long as with -O3. Under clang's sanitizers it is compiled with -O0.
add_library(paceline_options INTERFACE)
target_include_directories(paceline_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(paceline_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                  -Wno-sign-conversion)
# Decisions have the same numbers on every kind of processor: for ARM a compiler would fuse products and sums.
target_compile_options(paceline_options INTERFACE -ffp-contract=off)
# Files are named from the project's folder on, wherever that is: in messages, and for ccache.
target_compile_options(paceline_options INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False alarms of GCC 12 at -O3: about every std::variant that is moved, and every "text" + std::string.
  target_compile_options(paceline_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
  if(CMAKE_UNITY_BUILD)
    # The first it keeps back in the file that it compiles, which in a unity build is not a file of ours. The others are
    # about std::string too, where its header is precompiled.
    target_compile_options(paceline_options INTERFACE -Wno-subobject-linkage -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  # It looks for memory to free from 128 MB on, which takes it a twentieth of its time.
  target_compile_options(paceline_options INTERFACE --param=ggc-min-heapsize=524288)
endif()
# Some libraries ask for it, and precompiled headers want it everywhere or nowhere.
target_compile_options(paceline_options INTERFACE -pthread)
if(PACELINE_SANITIZE)
  target_compile_options(paceline_options INTERFACE -fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer
                                                    -fno-sanitize-recover=all)
  target_link_options(paceline_options INTERFACE -fsanitize=${PACELINE_SANITIZE})
  target_compile_definitions(paceline_options INTERFACE PACELINE_SANITIZED)
endif()

function(paceline_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;DEPS;SYSTEM" ${ARGN})
  add_library(paceline_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(paceline_${name} PRIVATE paceline_options PUBLIC fmt::fmt absl::status absl::statusor)
  set(options ${paceline_library_options})
  set(kind library)
  if(ARG_COLD)
    set(level -O1)
    if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
      set(level -O0)
    endif()
    list(APPEND options ${level})
    set(kind cold_library)
  endif()
  target_compile_options(paceline_${name} PRIVATE ${options})
  paceline_share_headers(paceline_${name} ${kind} "${options}")
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(paceline_${name} PUBLIC paceline_${dep})
  endforeach()
  target_link_libraries(paceline_${name} PUBLIC ${ARG_SYSTEM})
  paceline_note_target(${name} targets "${ARG_SOURCES}" "${ARG_DEPS}")
endfunction()

# What the preset asan does not have: the programs, and the tests beyond the core.
add_custom_target(unsanitized)

# paceline_test(NAME SOURCES … DEPS … [SLOW] [ALONE | WAITS | FIRST] [SHARDS N] [OPTIMIZED]): a GoogleTest program. Everyday
# tests carry the label "quick". Those of the core, which ./dev test runs under sanitizers, carry the label "sanitized", but
# for OPTIMIZED ones: they compute much, and do only a part of it under sanitizers (base/testing/effort.h). SHARDS: N runs of
# it, each with a part of its tests.
#
# How many run at a time: ./dev test gives ctest four places for each processor, and a test takes three of them. A test
# that starts whole jobs says how much of a processor they keep busy. ALONE: more than half of it, beside one other of these
# at most. WAITS: less than half, and two places do. FIRST: a third, and one place does. It begins before all others.
#
# What a test itself computes is little, so compiling it takes little: with -O1 GCC needs a third less time, and with -O0
# clang needs a third of it where there are sanitizers. PRECOMPILED_LIKE TARGET: where that library has a precompiled
# header, the test shares it, and so has to be compiled as that is.
function(paceline_test name)
  cmake_parse_arguments(ARG "SLOW;ALONE;WAITS;FIRST;OPTIMIZED" "TIMEOUT;PRECOMPILED_LIKE;SHARDS" "SOURCES;DEPS;SYSTEM" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE paceline_options GTest::gtest_main GTest::gmock ${ARG_SYSTEM})
  if(ARG_PRECOMPILED_LIKE AND NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${name} REUSE_FROM ${ARG_PRECOMPILED_LIKE})
  else()
    set(level -O1)
    set(kind test)
    if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
      if(ARG_OPTIMIZED)
        set(kind optimized_test)
      else()
        set(level -O0)
      endif()
    endif()
    target_compile_options(${name} PRIVATE ${level})
    if(NOT ARG_PRECOMPILED_LIKE)
      paceline_share_headers(${name} ${kind} ${level})
    endif()
  endif()
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE paceline_${dep})
  endforeach()
  paceline_note_target(${name} tests "${ARG_SOURCES}" "${ARG_DEPS}")
  set(labels quick)
  if(ARG_SLOW)
    set(labels slow)
  endif()
  if(PACELINE_BEYOND_CORE OR ARG_OPTIMIZED)
    add_dependencies(unsanitized ${name})
  else()
    list(APPEND labels sanitized)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  if(NOT ARG_SHARDS)
    paceline_add_run(${name} ${name} "")
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    paceline_add_run(${name}_${shard} ${name} "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# One run of the program NAME, with what paceline_test() was told.
macro(paceline_add_run run name environment)
  add_test(NAME ${run} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${run} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  set(run_environment "${environment}")
  set(places 3)
  if(PACELINE_SANITIZE)
    set(places 2) # many of them wait for peers or for the disk
  endif()
  if(ARG_WAITS)
    set(places 2)
    set_tests_properties(${run} PROPERTIES COST 1000)  # begun before those that compute
  endif()
  if(ARG_ALONE)
    # In two lanes by turns.
    get_property(lane GLOBAL PROPERTY paceline_lane)
    if(NOT lane)
      set(lane 0)
    endif()
    math(EXPR next_lane "1 - ${lane}")
    set_property(GLOBAL PROPERTY paceline_lane ${next_lane})
    set_tests_properties(${run} PROPERTIES RESOURCE_LOCK processors_${lane} COST 1500)
  endif()
  if(ARG_FIRST)
    set(places 1)
    set_tests_properties(${run} PROPERTIES COST 2000)
  endif()
  set_tests_properties(${run} PROPERTIES PROCESSORS ${places})
  if(PACELINE_SANITIZE MATCHES thread)
    # UCX watches memory calls, those at a thread's end too, when ThreadSanitizer has let go of the thread. And
    # peers that tests fork have threads of their own.
    list(APPEND run_environment UCX_MEM_EVENTS=no TSAN_OPTIONS=die_after_fork=0)
  endif()
  set_tests_properties(${run} PROPERTIES ENVIRONMENT "${run_environment}")
  set_tests_properties(${run} PROPERTIES LABELS "${labels}")
endmacro()

# For paceline_check_includes: what a target has and may include. KIND: targets or tests.
function(paceline_note_target name kind sources deps)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  get_filename_component(folder_name ${folder} NAME)
  set(files "")
  set(rules "set(paceline_${name}_deps ${deps})\nset(paceline_${name}_list ${folder}/CMakeLists.txt)\n")
  if(kind STREQUAL targets)
    string(APPEND rules "set(paceline_${name}_is_library TRUE)\n")
  endif()
  foreach(source IN LISTS sources)
    if(NOT IS_ABSOLUTE ${source})
      cmake_path(SET file NORMALIZE ${folder}/${source})
      string(REGEX REPLACE "\\.(cc|h)$" "" stem ${file})
      list(APPEND files ${file} ${stem}.h)
      if(kind STREQUAL targets AND NOT name STREQUAL folder_name)
        string(REGEX REPLACE "^.*/([^/]+/[^/]+)$" "\\1" stem ${stem})
        string(APPEND rules "set(paceline_owner_of_${stem} ${name})\n")
      endif()
    endif()
  endforeach()
  # Headers without a source are of the folder's own target.
  if(kind STREQUAL targets AND name STREQUAL folder_name)
    file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS *.h)
    list(APPEND files ${headers})
  endif()
  string(APPEND rules "set(paceline_${name}_files ${files})\nlist(APPEND paceline_${kind} ${name})\n")
  set_property(GLOBAL APPEND_STRING PROPERTY paceline_include_rules "${rules}")
endfunction()

# To be called when every folder has been added.
function(paceline_check_includes)
  get_property(rules GLOBAL PROPERTY paceline_include_rules)
  set(RULES ${CMAKE_BINARY_DIR}/include_rules.cmake)
  file(CONFIGURE OUTPUT ${RULES} CONTENT "set(SOURCE_DIR ${PROJECT_SOURCE_DIR})\n${rules}")
  include(${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake)
  file(GLOB_RECURSE sources ${PROJECT_SOURCE_DIR}/paceline/*.cc ${PROJECT_SOURCE_DIR}/paceline/*.h
       ${PROJECT_SOURCE_DIR}/tests/*.cc ${PROJECT_SOURCE_DIR}/tests/*.h)
  set(stamp ${CMAKE_BINARY_DIR}/includes_checked)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -DRULES=${RULES} -P ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${sources} ${RULES} ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    COMMENT "Checking what files include"
    VERBATIM)
  add_custom_target(includes ALL DEPENDS ${stamp})
  # All others are built after base.
  add_dependencies(paceline_base includes)
endfunction()
