#include "paceline/transport/links/ucx.h"

#include <signal.h>

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <ucs/debug/debug.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/links/socket_address.h"
#include "paceline/transport/links/ucx_port.h"

namespace paceline::links {

namespace {

// The interface, and the RDMA devices of the same card.
std::string devices_of(const std::string& interface) {
  if (interface.empty()) return "all";
  std::string devices = interface;
  for (const std::string& one : rdma_devices(interface)) devices += fmt::format(",{}:1", one);
  return devices;
}

struct FreeConfig {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};

absl::StatusOr<std::unique_ptr<ucp_config_t, FreeConfig>> configure(const std::string& interface) {
  ucp_config_t* read = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &read);
  if (status != UCS_OK) return ucx_error("cannot configure UCX", status);
  std::unique_ptr<ucp_config_t, FreeConfig> config(read);
  const std::pair<const char*, std::string> settings[] = {
      // Shared memory has links of its own.
      {"TLS", "tcp,ib"},
      {"NET_DEVICES", devices_of(interface)},
      // This finds a dead peer of an RDMA transport; those of TCP are known without it.
      {"KEEPALIVE_INTERVAL", "500ms"},
      // The receiver fetches the data; over TCP, which cannot do that, they are sent on request in small
      // pieces. If they are written to the peer's memory, UCX's own choice, a round over four hosts takes
      // half as long again.
      {"RNDV_SCHEME", "get_zcopy"},
      // A listener that starts again gets its port back.
      {"TCP_CM_REUSEADDR", "y"},
      // The link's status tells what a peer does, and not the terminal.
      {"LOG_LEVEL", "fatal"},
  };
  for (const auto& [name, value] : settings) {
    status = ucp_config_modify(config.get(), name, value.c_str());
    if (status != UCS_OK) return ucx_error(fmt::format("cannot set {} of UCX to {}", name, value), status);
  }
  return config;
}

class UcxPorts final : public PortListener {
 public:
  // The listener's callback holds the address of this.
  UcxPorts(ucp_context_h context, UcxWorker worker) : context_(context), worker_(std::move(worker)) {}
  ~UcxPorts() override {
    for (ucp_conn_request_h request : requests_) ucp_listener_reject(listener_, request);
    if (listener_ != nullptr) ucp_listener_destroy(listener_);
  }

  absl::Status open(const SocketAddress& address) {
    ucp_listener_params_t params{};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = address.get();
    params.sockaddr.addrlen = address.bytes;
    params.conn_handler.cb = [](ucp_conn_request_h request, void* self) {
      static_cast<UcxPorts*>(self)->requests_.push_back(request);
    };
    params.conn_handler.arg = this;
    ucs_status_t status = ucp_listener_create(worker_.get(), &params, &listener_);
    if (status != UCS_OK) return ucx_error("cannot listen on " + to_text(address.storage), status);
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    status = ucp_listener_query(listener_, &attributes);
    if (status != UCS_OK) return ucx_error("cannot tell the port of a listener", status);
    address_ = to_text(attributes.sockaddr);
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  int fd() const override { return ucx_worker_fd(worker_.get()); }
  bool arm() override { return arm_ucx_worker(worker_.get()); }

  bool progress(const OnPort& on_port) override {
    while (ucp_worker_progress(worker_.get()) != 0) {
    }
    for (ucp_conn_request_h request : std::exchange(requests_, {})) {
      ucp_conn_request_attr_t who{};
      who.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
      const bool known = ucp_conn_request_query(request, &who) == UCS_OK;
      auto port = UcxPort::accept(context_, listener_, request);
      // A peer that has gone again does not matter.
      if (port.ok()) on_port(*std::move(port), known ? to_text(who.client_address) : "a peer");
    }
    return true;
  }

 private:
  ucp_context_h context_;
  UcxWorker worker_;
  ucp_listener_h listener_ = nullptr;
  std::string address_;
  std::vector<ucp_conn_request_h> requests_;
};

}  // namespace

void Ucx::Close::operator()(ucp_context* context) const { ucp_cleanup(context); }

absl::StatusOr<Ucx> Ucx::open(const std::string& host) {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress address, parse_host(host, 0));
  PACELINE_ASSIGN_OR_RETURN(const std::string interface, interface_of(address));
  // UCX must not explain crashes of this process.
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  PACELINE_ASSIGN_OR_RETURN(const auto config, configure(interface));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, config.get(), &context);
  if (status != UCS_OK) return ucx_error("UCX cannot use the network of " + host, status);
  return Ucx(context, host);
}

absl::StatusOr<std::unique_ptr<PortListener>> Ucx::open_listener(int port) const {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress address, parse_host(host_, port));
  PACELINE_ASSIGN_OR_RETURN(UcxWorker worker, make_ucx_worker(context_.get()));
  auto ports = std::make_unique<UcxPorts>(context_.get(), std::move(worker));
  PACELINE_RETURN_IF_ERROR(ports->open(address));
  return ports;
}

absl::StatusOr<std::unique_ptr<FramePort>> Ucx::open_port(const std::string& address) const {
  PACELINE_ASSIGN_OR_RETURN(const SocketAddress parsed, parse_address(address));
  return UcxPort::connect(context_.get(), parsed);
}

}  // namespace paceline::links
