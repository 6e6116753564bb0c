// Keeps which page shows which runs, and which version of each part the page has, and makes the events of the
// streams. Its thread alone reads the runs, so that a page never waits for a disk. It reads a long run in pieces, and
// answers between them.
//
// Invariant: a page gets a part only if it has changed, and then the whole part, so that a page that connects
// again has everything at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/tools/ui/http_server.h"
#include "paceline/tools/ui/run_follower.h"
#include "paceline/tools/ui/runs_index.h"
#include "paceline/tools/ui/ui_server.h"

namespace paceline::ui {

class Publisher {
 public:
  // `piece`: the most events that it reads of a run at a time.
  explicit Publisher(const UiOptions& options, std::int64_t piece = RunFollower::kPiece);
  ~Publisher();

  // How long a run that nobody looks at is kept, if it was read for so long.
  static std::chrono::steady_clock::duration kept_for(std::chrono::steady_clock::duration reading);

  // All of these may be called by any thread.
  void subscribe(std::shared_ptr<Exchange> page, std::string part, std::vector<std::string> runs);
  // Answers with the metrics of that run, or without a name those of the newest.
  void metrics(std::shared_ptr<Exchange> asked, std::string run);
  // Answers whether the newest run is well, in a line.
  void health(std::shared_ptr<Exchange> asked);
  // `what`: the request to the process that leads the run.
  void ask_run(std::shared_ptr<Exchange> asked, std::string run, std::string job_token,
               AskRun UiOptions::*what);

 private:
  using Steady = std::chrono::steady_clock;
  struct Sent {
    std::size_t hash = 0;
    Steady::time_point next{};  // not before this time
  };
  struct Page {
    std::shared_ptr<Exchange> exchange;
    std::string part;
    std::vector<std::string> runs;
    std::map<std::string, Sent> sent;  // keyed by run and part
  };
  struct Followed {
    std::unique_ptr<RunFollower> run;
    Steady::time_point wanted;
    Steady::duration reading{0};               // how long it was read while it was behind
    std::map<std::string, std::string> parts;  // the parts as events
  };

  void work();
  // Looks for new runs, for all pages that show the list of them.
  void look();
  void tick();
  void give(Page& page);
  void send(Page& page, const std::string& key, const std::string& event,
            std::chrono::milliseconds period = {});
  Followed* follow(const std::string& run);
  // Follows a run, and reads it for those who ask now; a run that is behind is read between the tasks anyway.
  RunFollower* read(const std::string& run);
  void read_piece(Followed& followed) const;
  // Reads the next piece of each run that is behind.
  void read_on();
  bool is_behind() const;
  // Does the task on the thread, unless the one who asked has gone by then.
  void post(std::shared_ptr<Exchange> asked, std::function<void()> task);

  const UiOptions options_;
  const std::int64_t piece_;
  std::mutex mutex_;
  std::condition_variable woken_;
  struct Task {
    std::shared_ptr<Exchange> asked;
    std::function<void()> act;
  };
  std::deque<Task> tasks_;
  bool ends_ = false;

  // Used by the thread alone.
  RunsIndex index_;
  Steady::time_point looked_{};
  std::string list_event_;
  std::vector<Page> pages_;
  bool page_is_new_ = false;
  std::map<std::string, Followed> followed_;

  std::thread thread_;
};

}  // namespace paceline::ui
