// The last word to a peer, whoever it is.
#pragma once

#include <string>
#include <utility>

#include "paceline/rpc/peer_stream.h"

namespace paceline::rpc {

// What a worker is told whose place is taken ends so.
inline constexpr char kIsHereAlready[] = "is here already";
// And one whose host has been given up.
inline constexpr char kGoesOnWithout[] = "was given up, and the run goes on without it";

// The job is over for it: `why`, and the end of the stream. `refused`: it is not wanted in this job.
template <class In, class Out>
void say_goodbye(PeerStream<In, Out>& stream, const std::string& why, bool refused = false) {
  Out order;
  order.mutable_goodbye()->set_refused(refused);
  order.mutable_goodbye()->set_why(why);
  stream.send(std::move(order));
  stream.close();
}

// It was given up; it may come again as a new one.
template <class In, class Out>
void give_up(PeerStream<In, Out>& stream, const std::string& why) {
  Out order;
  order.mutable_goodbye()->set_again(true);
  order.mutable_goodbye()->set_why(why);
  stream.send(std::move(order));
  stream.close();
}

template <class In, class Out>
void refuse(PeerStream<In, Out>& stream, const std::string& why) {
  say_goodbye(stream, why, true);
}

}  // namespace paceline::rpc
