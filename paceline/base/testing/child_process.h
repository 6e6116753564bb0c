// A forked child for tests of what crosses processes: it runs a function and exits with what that returns.
// The parent talks to it through a pipe each way.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace paceline::testing {

class ChildProcess {
 public:
  // The child's end: its lines to its parent, and its parent's lines. One line at a time.
  class Parent {
   public:
    Parent(int in, int out) : in_(in), out_(out) {}
    void say(const std::string& line) const;
    std::string hear() const;

   private:
    int in_;
    int out_;
  };

  explicit ChildProcess(const std::function<int(const Parent&)>& run);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void say(const std::string& line) const { Parent(in_, out_).say(line); }
  std::string hear() const { return Parent(in_, out_).hear(); }
  // Kills it with SIGKILL and waits until it is gone.
  void kill();
  // Waits for its end; what it returned.
  int wait();

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

}  // namespace paceline::testing
