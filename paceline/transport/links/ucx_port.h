// One connection of UCX as a link's port. Each has a worker of its own, so that a fault with one peer touches
// no other, and so that its end ends every operation.
#pragma once

#include <list>
#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <ucp/api/ucp.h>

#include "paceline/transport/links/frame_port.h"
#include "paceline/transport/links/socket_address.h"

namespace paceline::links {

struct FreeUcxWorker {
  void operator()(ucp_worker* worker) const { ucp_worker_destroy(worker); }
};
using UcxWorker = std::unique_ptr<ucp_worker, FreeUcxWorker>;

// Errors: Unavailable.
absl::StatusOr<UcxWorker> make_ucx_worker(ucp_context_h context);
// A text like "what: UCX's own words".
absl::Status ucx_error(const std::string& what, ucs_status_t status);
// True: nothing to do until the worker's descriptor is readable.
inline bool arm_ucx_worker(ucp_worker_h worker) { return ucp_worker_arm(worker) == UCS_OK; }
int ucx_worker_fd(ucp_worker_h worker);

class UcxPort final : public FramePort {
 public:
  static absl::StatusOr<std::unique_ptr<UcxPort>> connect(ucp_context_h context,
                                                          const SocketAddress& address);
  // The request is used up in any case.
  static absl::StatusOr<std::unique_ptr<UcxPort>> accept(ucp_context_h context, ucp_listener_h listener,
                                                         ucp_conn_request_h request);
  ~UcxPort() override { UcxPort::stop(); }

  void start(FrameSink& sink) override { sink_ = &sink; }
  void post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  std::size_t chunk_bytes(std::size_t left) const override;
  bool takes_chunk() const override;
  void progress() override;
  int fd() const override { return fd_; }
  bool arm() override { return arm_ucx_worker(worker_.get()); }
  bool finish() override;
  void stop() override;

 private:
  // A frame that UCX is working on.
  struct Operation {
    UcxPort* port;
    std::uint64_t count;
    std::list<Operation>::iterator self;
  };

  explicit UcxPort(UcxWorker worker);
  absl::Status open(ucp_ep_params_t& params);
  Operation& begin(std::uint64_t count);
  void finish(Operation& operation, ucs_status_t status, void (FrameSink::*tell)(std::uint64_t));
  ucs_status_t came(std::span<const std::byte> head, void* data, std::size_t bytes, bool waits);
  void lost(ucs_status_t status);

  UcxWorker worker_;
  int fd_ = -1;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_ptr_t flushing_ = nullptr;  // set once it has to finish; no pointer: it has
  FrameSink* sink_ = nullptr;
  bool stopped_ = false;
  std::uint64_t posted_ = 0;
  int sending_ = 0;  // the number of frames
  std::uint64_t came_ = 0;
  std::list<Operation> operations_;
};

}  // namespace paceline::links
