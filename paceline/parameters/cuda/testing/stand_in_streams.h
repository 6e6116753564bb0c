// Streams of the stand-in: each is a thread that does one thing after the other. No stream waits for another
// unless an event or a word says so, not even the null stream, which waits for all others in CUDA: a program
// that forgets to wait shows it. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace paceline::cuda::stand_in {

// Set once: all work before one place of a stream is done.
class Mark {
 public:
  void set();
  bool is_set() const;
  void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool set_ = false;
};

class Stream {
 public:
  Stream();
  // Finishes its work, except that it waits for no word and no event that has not come: the work behind such
  // a wait is lost.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void add(std::function<void()> work);
  // Goes on when this returns true. It is asked again and again.
  void wait_until(std::function<bool()> condition);
  // The mark is set when all work so far is done, or lost.
  void add(std::shared_ptr<Mark> mark);

  bool idle() const;
  void synchronize();

 private:
  struct Item {
    std::function<void()> work;
    std::function<bool()> condition;
    std::shared_ptr<Mark> mark;
  };
  void put(Item item);
  void run();
  bool await(const std::function<bool()>& condition);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

// A recorded place in a stream. Before the first record() it counts as reached.
class Event {
 public:
  void record(Stream& stream);
  std::shared_ptr<Mark> recorded() const;  // null before the first record()

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

}  // namespace paceline::cuda::stand_in
