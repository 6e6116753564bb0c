// A server's way to its coordinator.
#pragma once

#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::server {

class Outbox {
 public:
  virtual ~Outbox() = default;
  // Any thread. False if the session has ended.
  virtual bool send(wire::ServerMessage message) = 0;
};

}  // namespace paceline::server
