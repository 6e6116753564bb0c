// One request to a server of this machine, like a scraper's.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace paceline::tests {

// The whole answer, headers first; empty if no server listens.
inline std::string http_get(int port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string reply;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request =
        fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", path, port);
    send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    char bytes[4096];
    for (ssize_t count = 0; (count = recv(socket, bytes, sizeof bytes, 0)) > 0;)
      reply.append(bytes, static_cast<std::size_t>(count));
  }
  close(socket);
  return reply;
}

}  // namespace paceline::tests
