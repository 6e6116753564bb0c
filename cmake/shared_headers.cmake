# paceline_share_headers(TARGET KIND OPTIONS): the headers of others that nearly every file reads, precompiled once for each
# KIND, which is a way of compiling. Reading them takes longer than compiling many a folder. Only where files are compiled
# together: where each is compiled for itself (preset edit), it shows that a file includes what it uses.
set(shared_headers
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <deque> <filesystem> <fstream> <functional> <limits>
    <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <tuple>
    <unordered_map> <utility> <variant> <vector> <absl/status/statusor.h> <absl/strings/str_split.h> <fmt/format.h> <fmt/ranges.h>)

function(paceline_share_headers target kind options)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set(owner paceline_${kind}_headers)
  if(NOT TARGET ${owner})
    set(source ${CMAKE_BINARY_DIR}/${owner}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Has the precompiled headers of others.\n")
    add_library(${owner} OBJECT ${source})
    target_link_libraries(${owner} PRIVATE paceline_options fmt::fmt absl::status absl::statusor)
    target_compile_options(${owner} PRIVATE ${options})
    target_precompile_headers(${owner} PRIVATE ${shared_headers})
    if(kind MATCHES test)
      target_link_libraries(${owner} PRIVATE GTest::gmock)
      target_precompile_headers(${owner} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
