#include "paceline/transport/links/ucx_port.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/links/link_frames.h"

namespace paceline::links {

namespace {

constexpr unsigned kFrames = 0;  // the active message's id
// Few data are under way at once, because everything that a peer asks for comes behind them, over TCP on the
// same connection. Larger and more chunks were up to half as fast between hosts that all send to each other.
constexpr std::size_t kUcxChunk = 128 << 10;
constexpr int kMostUcxChunks = 2;
// UCX ends its operations at once when it is told to; this limit is for an error of its own.
constexpr auto kStopLimit = std::chrono::milliseconds(200);

}  // namespace

absl::Status ucx_error(const std::string& what, ucs_status_t status) {
  return absl::UnavailableError(fmt::format("{}: {}", what, ucs_status_string(status)));
}

absl::StatusOr<UcxWorker> make_ucx_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(context, &params, &worker);
  if (status != UCS_OK) return ucx_error("cannot use the network", status);
  return UcxWorker(worker);
}

int ucx_worker_fd(ucp_worker_h worker) {
  int fd = -1;
  return ucp_worker_get_efd(worker, &fd) == UCS_OK ? fd : -1;
}

UcxPort::UcxPort(UcxWorker worker) : worker_(std::move(worker)), fd_(ucx_worker_fd(worker_.get())) {
  ucp_am_handler_param_t handler{};
  handler.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kFrames;
  handler.arg = this;
  handler.cb = [](void* self, const void* head, std::size_t head_bytes, void* data, std::size_t bytes,
                  const ucp_am_recv_param_t* how) {
    return static_cast<UcxPort*>(self)->came({static_cast<const std::byte*>(head), head_bytes}, data, bytes,
                                             (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  };
  ucp_worker_set_am_recv_handler(worker_.get(), &handler);
}

absl::Status UcxPort::open(ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxPort*>(self)->lost(status);
  };
  params.err_handler.arg = this;
  const ucs_status_t status = ucp_ep_create(worker_.get(), &params, &endpoint_);
  return status == UCS_OK ? absl::OkStatus() : ucx_error("cannot connect", status);
}

absl::StatusOr<std::unique_ptr<UcxPort>> UcxPort::connect(ucp_context_h context,
                                                          const SocketAddress& address) {
  PACELINE_ASSIGN_OR_RETURN(UcxWorker worker, make_ucx_worker(context));
  std::unique_ptr<UcxPort> port(new UcxPort(std::move(worker)));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = address.get();
  params.sockaddr.addrlen = address.bytes;
  PACELINE_RETURN_IF_ERROR(port->open(params));
  return port;
}

absl::StatusOr<std::unique_ptr<UcxPort>> UcxPort::accept(ucp_context_h context, ucp_listener_h listener,
                                                         ucp_conn_request_h request) {
  absl::StatusOr<UcxWorker> worker = make_ucx_worker(context);
  if (!worker.ok()) {
    ucp_listener_reject(listener, request);
    return worker.status();
  }
  std::unique_ptr<UcxPort> port(new UcxPort(*std::move(worker)));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  PACELINE_RETURN_IF_ERROR(port->open(params));
  return port;
}

std::size_t UcxPort::chunk_bytes(std::size_t left) const { return std::min(kUcxChunk, left); }

bool UcxPort::takes_chunk() const { return sending_ < kMostUcxChunks; }

UcxPort::Operation& UcxPort::begin(std::uint64_t count) {
  const auto self = operations_.insert(operations_.end(), {this, count, {}});
  self->self = self;
  return *self;
}

void UcxPort::finish(Operation& operation, ucs_status_t status, void (FrameSink::*tell)(std::uint64_t)) {
  const std::uint64_t count = operation.count;
  operations_.erase(operation.self);
  if (stopped_) return;
  if (status != UCS_OK) return lost(status);
  (sink_->*tell)(count);
}

void UcxPort::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  if (stopped_) return;
  Operation& operation = begin(posted_++);
  ++sending_;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  // Rendezvous: data go directly into the receiver's memory. Small data are copied, which is faster.
  params.flags = data.size() > kInlineBytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  params.user_data = &operation;
  params.cb.send = [](void* request, ucs_status_t status, void* data_of) {
    auto* one = static_cast<Operation*>(data_of);
    ucp_request_free(request);
    --one->port->sending_;
    one->port->finish(*one, status, &FrameSink::frame_sent);
  };
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint_, kFrames, head.data(), head.size(), data.data(), data.size(), &params);
  if (UCS_PTR_IS_PTR(request)) return;
  --sending_;
  finish(operation, UCS_PTR_STATUS(request), &FrameSink::frame_sent);
}

// `waits`: the data are still with the sender, and `data` stands for them.
ucs_status_t UcxPort::came(std::span<const std::byte> head, void* data, std::size_t bytes, bool waits) {
  if (stopped_) return UCS_OK;
  const absl::StatusOr<std::byte*> memory = sink_->frame_came(head, bytes);
  if (!memory.ok()) return UCS_OK;
  const std::uint64_t count = came_++;
  if (bytes == 0) return UCS_OK;
  if (!waits) {
    std::memcpy(*memory, data, bytes);
    sink_->data_came(count);
    return UCS_OK;
  }
  Operation& operation = begin(count);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.user_data = &operation;
  params.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* data_of) {
    auto* one = static_cast<Operation*>(data_of);
    ucp_request_free(request);
    one->port->finish(*one, status, &FrameSink::data_came);
  };
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_.get(), data, *memory, bytes, &params);
  if (UCS_PTR_IS_PTR(request)) return UCS_INPROGRESS;
  finish(operation, UCS_PTR_STATUS(request), &FrameSink::data_came);
  return UCS_OK;
}

void UcxPort::lost(ucs_status_t status) {
  if (stopped_ || sink_ == nullptr) return;
  sink_->peer_lost(fmt::format("the peer is gone ({})", ucs_status_string(status)));
}

// Not for ever, even if the peer sends as fast as this thread decrypts: other links of the thread have their turns.
void UcxPort::progress() {
  constexpr int kMostRounds = 1000;
  if (stopped_) return;
  for (int round = 0; round < kMostRounds && ucp_worker_progress(worker_.get()) != 0; ++round) {
  }
}

bool UcxPort::finish() {
  if (stopped_ || endpoint_ == nullptr) return true;
  const ucp_request_param_t params{};
  if (flushing_ == nullptr) flushing_ = ucp_ep_flush_nbx(endpoint_, &params);
  if (!UCS_PTR_IS_PTR(flushing_)) return true;
  while (ucp_worker_progress(worker_.get()) != 0) {
  }
  return ucp_request_check_status(flushing_) != UCS_INPROGRESS;
}

void UcxPort::stop() {
  if (stopped_) return;
  stopped_ = true;
  if (UCS_PTR_IS_PTR(flushing_)) ucp_request_free(flushing_);
  const auto until = std::chrono::steady_clock::now() + kStopLimit;
  ucs_status_ptr_t closing = nullptr;
  if (endpoint_ != nullptr) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing = ucp_ep_close_nbx(endpoint_, &params);
  }
  const auto closed = [&] {
    return !UCS_PTR_IS_PTR(closing) || ucp_request_check_status(closing) != UCS_INPROGRESS;
  };
  while ((!closed() || !operations_.empty()) && std::chrono::steady_clock::now() < until) {
    ucp_worker_progress(worker_.get());
  }
  if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
  worker_.reset();
}

}  // namespace paceline::links
