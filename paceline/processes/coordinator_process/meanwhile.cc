#include "paceline/processes/coordinator_process/meanwhile.h"

#include <future>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/event_loop.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator_process {

namespace {

constexpr std::chrono::milliseconds kIdle{100};

absl::StatusOr<std::unique_ptr<CoordinatorServer>> listen(const ListeningSocket& listening, EventLoop& loop,
                                                          const CoordinatorServer::Options& options) {
  auto socket = copy_of(listening);
  if (!socket.ok()) return socket.status();
  return CoordinatorServer::start(*std::move(socket), loop, nullptr, options);
}

}  // namespace

void answer_meanwhile(const ListeningSocket& listening, const CoordinatorServer::Options& options,
                      std::chrono::milliseconds soon, const std::function<void()>& takes_long,
                      const std::function<void()>& work) {
  EventLoop loop;
  std::promise<void> done;
  const std::jthread worker([&] {
    work();
    done.set_value();
    loop.post([&loop] { loop.stop(); });
  });
  if (done.get_future().wait_for(soon) == std::future_status::ready) return;
  takes_long();
  const auto server = listen(listening, loop, options);
  if (!server.ok())
    options.notice(fmt::format("nobody is answered meanwhile: {}", message_of(server.status())));
  loop.run(kIdle, [] {});
}

}  // namespace paceline::coordinator_process
