#include "paceline/tools/ui/publisher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/records/pages/json_values.h"

namespace paceline::ui {

namespace {

using report::Json;

// A page is behind a run by a tick and the time to make the page; a large part is behind by two ticks.
constexpr std::chrono::milliseconds kTick{400};
// The interval of looking for new runs while somebody sees the list.
constexpr std::chrono::seconds kLook{2};
// The shortest interval between two updates of a part.
std::chrono::milliseconds period_of(const std::string& part) {
  return part == "head" || part == "events" ? kTick : 2 * kTick;
}
// A run that nobody has looked at for this long is forgotten. Longer than the usual interval of collecting
// metrics.
constexpr std::chrono::minutes kKept{10};
// So many times as long as it was read a run is kept, because somebody who comes again should not wait again.
constexpr int kKeptOfReading = 50;
// The thread rests at least this many times as long as it works, so that it costs a run on this machine
// little.
constexpr int kRest = 15;
// The longest rest, so that a page does not stand still. It does not rest while a run is read for the first time.
constexpr std::chrono::seconds kLongestRest{2};

std::string event(const std::string& name, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, report::one_line(data));
}

std::string part_event(const std::string& run, const std::string& part, const Json& data) {
  return event("part", {{"run", run}, {"part", part}, {"data", data}});
}

}  // namespace

Publisher::Publisher(const UiOptions& options, std::int64_t piece)
    : options_(options), piece_(piece), index_(options.roots), thread_([this] { work(); }) {}

std::chrono::steady_clock::duration Publisher::kept_for(Steady::duration reading) {
  return std::max<Steady::duration>(kKept, kKeptOfReading * reading);
}

Publisher::~Publisher() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  woken_.notify_all();
  thread_.join();
}

void Publisher::post(std::shared_ptr<Exchange> asked, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(asked), std::move(task)});
  }
  woken_.notify_all();
}

void Publisher::subscribe(std::shared_ptr<Exchange> page, std::string part, std::vector<std::string> runs) {
  page->stream();
  post(page, [this, page, part = std::move(part), runs = std::move(runs)] {
    pages_.push_back({page, part, runs, {}});
    page_is_new_ = true;
  });
}

void Publisher::work() {
  auto next = Steady::now();
  while (true) {
    std::deque<Task> tasks;
    {
      std::unique_lock lock(mutex_);
      const auto woken = [this] { return ends_ || !tasks_.empty() || is_behind(); };
      if (pages_.empty()) {
        woken_.wait(lock, woken);
      } else {
        woken_.wait_until(lock, next, woken);
      }
      if (ends_) return;
      tasks.swap(tasks_);
    }
    for (const Task& task : tasks) {
      if (!task.asked->closed()) task.act();
    }
    tasks.clear();
    std::erase_if(pages_, [](const Page& page) { return page.exchange->closed(); });
    read_on();
    // A new page gets everything at once. A request for metrics changes no page.
    if (!std::exchange(page_is_new_, false) && Steady::now() < next) continue;
    const auto began = Steady::now();
    tick();
    const auto took = Steady::now() - began;
    next = Steady::now() + std::clamp<Steady::duration>(kRest * took, kTick, kLongestRest);
  }
}

Publisher::Followed* Publisher::follow(const std::string& run) {
  const RunCard* card = index_.find(run);
  if (card == nullptr) return nullptr;
  Followed& followed = followed_[run];
  if (!followed.run) followed.run = std::make_unique<RunFollower>(card->paths());
  followed.wanted = Steady::now();
  return &followed;
}

RunFollower* Publisher::read(const std::string& run) {
  Followed* followed = follow(run);
  if (followed == nullptr) return nullptr;
  if (!followed->run->is_behind()) read_piece(*followed);
  return followed->run.get();
}

void Publisher::read_piece(Followed& followed) const {
  const auto began = Steady::now();
  followed.run->read(piece_);
  if (followed.run->is_behind()) followed.reading += Steady::now() - began;
}

void Publisher::read_on() {
  for (auto& [id, followed] : followed_) {
    if (followed.run->is_behind()) read_piece(followed);
  }
}

bool Publisher::is_behind() const {
  return std::any_of(followed_.begin(), followed_.end(),
                     [](const auto& one) { return one.second.run->is_behind(); });
}

void Publisher::look() {
  index_.look();
  looked_ = Steady::now();
  list_event_ = event("list", {{"runs", index_.json()},
                               {"left_out", index_.left_out()},
                               {"can_stop", static_cast<bool>(options_.stop_run)}});
}

void Publisher::tick() {
  const auto now = Steady::now();
  std::erase_if(followed_,
                [now](const auto& one) { return now - one.second.wanted > kept_for(one.second.reading); });
  if (pages_.empty()) return;
  if (now - looked_ >= kLook) look();
  for (auto& [id, followed] : followed_) followed.parts.clear();
  for (Page& page : pages_) give(page);
}

void Publisher::send(Page& page, const std::string& key, const std::string& text,
                     std::chrono::milliseconds period) {
  const std::size_t hash = std::hash<std::string>()(text);
  Sent& sent = page.sent[key];
  const auto now = Steady::now();
  if (sent.hash == hash || now < sent.next) return;
  sent = {hash, now + period - kTick / 4};
  page.exchange->send(text);
}

void Publisher::give(Page& page) {
  // Every page has the list: its links, and the runs to compare with.
  if (page.part == "list") return send(page, "list", list_event_);
  for (const std::string& run : page.runs) {
    Followed* followed = follow(run);
    if (followed == nullptr) {
      send(page, run, event("gone", {{"run", run}}));
      continue;
    }
    if (followed->parts.empty()) {
      for (const auto& [part, data] : read(run)->parts()) followed->parts[part] = part_event(run, part, data);
    }
    for (const auto& [part, text] : followed->parts) {
      const bool wanted = page.part == "run" || part == "head" || part == "curves";
      if (wanted) send(page, run + "\n" + part, text, period_of(part));
    }
  }
}

void Publisher::metrics(std::shared_ptr<Exchange> asked, std::string run) {
  post(asked, [this, asked, run = std::move(run)] {
    look();
    RunFollower* follower = read(run.empty() ? index_.newest() : run);
    if (follower == nullptr) return asked->answer({.status = 404, .body = "there is no such run\n"});
    auto text = follower->metrics();
    if (!text.ok())
      return asked->answer({.status = 503, .body = std::string(text.status().message()) + "\n"});
    asked->answer({.type = "text/plain; version=0.0.4; charset=utf-8", .body = *std::move(text)});
  });
}

void Publisher::health(std::shared_ptr<Exchange> asked) {
  post(asked, [this, asked] {
    look();
    const std::string run = index_.newest();
    RunFollower* follower = read(run);
    if (follower == nullptr) return asked->answer({.body = "there is no run yet\n"});
    const RunState state = follower->state().state;
    const bool ill = state == RunState::kFailed || state == RunState::kLost;
    asked->answer({.status = ill ? 503 : 200, .body = fmt::format("{}: {}\n", run, follower->in_a_line())});
  });
}

void Publisher::ask_run(std::shared_ptr<Exchange> asked, std::string run, std::string job_token,
                        AskRun UiOptions::*what) {
  post(asked, [this, asked, run = std::move(run), job_token = std::move(job_token), what] {
    const RunCard* card = index_.find(run);
    if (card == nullptr) return asked->answer({.status = 404, .body = "there is no such run\n"});
    const AskRun& ask = options_.*what;
    if (!ask) return asked->answer({.status = 403, .body = "this cannot be asked from here\n"});
    const absl::StatusOr<std::string> answer = ask(card->paths(), job_token);
    if (answer.ok()) return asked->answer({.status = 200, .body = *answer + "\n"});
    const int status = absl::IsPermissionDenied(answer.status()) ? 403 : 409;
    asked->answer({.status = status, .body = std::string(answer.status().message()) + "\n"});
  });
}

}  // namespace paceline::ui
