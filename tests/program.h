// Runs the real `paceline` program in tests: as a user would, with its output and exit status.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::tests {

// A folder of its own for a test, removed at its end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Ended {
  int status = 0;      // exit status; 128 + n after signal n
  std::string output;  // standard output
  std::string errors;  // standard error
};

struct InShell {};

// A `paceline` process. Killed when the object goes.
class Program {
 public:
  // `first` runs in the new process before it becomes `paceline`, for example to go to another host; if it
  // fails, the process ends at once.
  explicit Program(const std::vector<std::string>& arguments, const std::function<bool()>& first = {});
  // Runs a line for /bin/sh, in which $PACELINE is the program.
  Program(InShell, const std::string& line);
  ~Program();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for the program's end, at most `seconds`; after that the test fails and the program gets SIGKILL.
  Ended wait(int seconds = 240);
  bool running();
  // Looks every few milliseconds until `condition` holds. Stops early if the program has ended, and after
  // `seconds`: then the result has all that the program has said.
  ::testing::AssertionResult until(const std::function<bool()>& condition, int seconds = 120);
  // until() its standard error has `words`.
  ::testing::AssertionResult until_said(const std::string& words, int seconds = 120);
  std::string output_so_far() const;
  std::string errors_so_far() const;

 private:
  void start(std::vector<std::string> words, const std::function<bool()>& first);
  int status() const;  // only after its end

  TempFolder folder_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

Ended run(const std::vector<std::string>& arguments);
Ended run_in_shell(const std::string& line);

// The process ids of the children of `parent` whose command line has `word` among its arguments.
std::vector<pid_t> children(pid_t parent, const std::string& word);

// The words with which a peer reaches its coordinator, for a similar command line: --coordinator, an address,
// and its credentials.
std::vector<std::string> reach_of(pid_t peer);
// The command line of a worker for the device `name` of the job of that worker, on its host.
std::vector<std::string> worker_beside(pid_t worker, const std::string& name);

// A port of this machine on which no process listens now.
int free_port();

// Looks every few milliseconds until `condition` holds; false after `seconds`. To wait for a Program, use
// Program::until().
bool eventually(const std::function<bool()>& condition, int seconds = 120);

void write_text(const std::filesystem::path& path, const std::string& text);
std::string read_text(const std::filesystem::path& path);

// The only run folder in `runs`. A test failure when there is not exactly one.
std::filesystem::path only_run(const std::filesystem::path& runs);

}  // namespace paceline::tests
