#include "paceline/tools/cli/program.h"

#include <csignal>
#include <filesystem>
#include <functional>
#include <system_error>

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

namespace paceline::cli {
namespace {

void run_one_that_throws(const std::function<void()>& throw_it) noexcept {
  CLI::App app{"", "paceline"};
  app.add_subcommand("throw");
  char name[] = "paceline", command[] = "throw";
  char* words[] = {name, command, nullptr};
  run_program(
      app,
      [&]() -> absl::StatusOr<int> {
        throw_it();
        return 0;
      },
      2, words);
}

TEST(ProgramDeathTest, AnExceptionEndsItWithALine) {
  const auto code = [](std::errc error) { return std::make_error_code(error); };
  EXPECT_EXIT(run_one_that_throws([&] {
                throw std::filesystem::filesystem_error("cannot look", "/root/certs",
                                                        code(std::errc::operation_not_permitted));
              }),
              testing::KilledBySignal(SIGABRT), "a bug of Paceline: .*cannot look.*/root/certs");
  EXPECT_EXIT(run_one_that_throws([&] { throw std::system_error(code(std::errc::operation_not_permitted)); }),
              testing::ExitedWithCode(2), "no thread could be started: the container's seccomp profile");
  EXPECT_EXIT(run_one_that_throws([&] { throw std::system_error(code(std::errc::io_error)); }),
              testing::KilledBySignal(SIGABRT), "a bug of Paceline: ");
}

}  // namespace
}  // namespace paceline::cli
