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

// The last order, and the end of the stream.
template <class In, class Out>
void say_goodbye(PeerStream<In, Out>& stream, const wire::Goodbye& goodbye) {
  Out order;
  *order.mutable_goodbye() = goodbye;
  stream.send(std::move(order));
  stream.close();
}

// The job is over.
template <class In, class Out>
void say_goodbye(PeerStream<In, Out>& stream) {
  say_goodbye(stream, wire::Goodbye());
}

// It was given up; it may come again as a new one.
template <class In, class Out>
void give_up(PeerStream<In, Out>& stream, const std::string& why) {
  wire::Goodbye goodbye;
  goodbye.set_again(true);
  goodbye.set_why(why);
  say_goodbye(stream, goodbye);
}

// It is not wanted in this job.
template <class In, class Out>
void refuse(PeerStream<In, Out>& stream, const std::string& why) {
  wire::Goodbye goodbye;
  goodbye.set_refused(true);
  goodbye.set_why(why);
  say_goodbye(stream, goodbye);
}

}  // namespace paceline::rpc
