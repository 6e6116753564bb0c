#include "paceline/processes/peer/called_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include "paceline/base/memory_file.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/status.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/records/store/crc32.h"

namespace paceline::peer {

namespace {

// One call about a file, which ends early if a stop is asked for.
class FileCall {
 public:
  FileCall(Stub& stub, const rpc::Access& access, const std::stop_token& stop)
      : stream_(open(stub, access)), stop_(stop, [this] { context_.TryCancel(); }) {}
  ~FileCall() {
    if (finished_) return;
    context_.TryCancel();
    stream_->Finish();
  }

  bool write(const wire::FileMessage& message) { return stream_->Write(message); }
  bool read(wire::FileMessage& message) { return stream_->Read(&message); }
  // The reason why the call ended early.
  absl::Status broken() {
    finished_ = true;
    const absl::Status status = wire::from_grpc(stream_->Finish());
    return status.ok() ? absl::UnavailableError("the call of a file ended early") : status;
  }

 private:
  using Stream = grpc::ClientReaderWriter<wire::FileMessage, wire::FileMessage>;

  std::unique_ptr<Stream> open(Stub& stub, const rpc::Access& access) {
    rpc::introduce(context_, access);
    return stub.File(&context_);
  }

  grpc::ClientContext context_;
  const std::unique_ptr<Stream> stream_;
  const std::stop_callback<std::function<void()>> stop_;
  bool finished_ = false;
};

class SentFile final : public store::FileSink {
 public:
  SentFile(Stub& stub, const rpc::Access& access, const std::stop_token& stop) : call_(stub, access, stop) {}

  absl::Status begin(const std::string& dir, const std::string& name) {
    wire::FileMessage put;
    put.mutable_put()->set_dir(dir);
    put.mutable_put()->set_name(name);
    return call_.write(put) ? absl::OkStatus() : call_.broken();
  }

  absl::Status write(const void* bytes, std::size_t count) override {
    crc_ = store::crc32_after(bytes, count, crc_);
    const char* next = static_cast<const char*>(bytes);
    while (count > 0) {
      std::string& piece = *message_.mutable_piece();
      const std::size_t some = std::min(count, wire::kPieceBytes - piece.size());
      piece.append(next, some);
      next += some;
      count -= some;
      if (piece.size() == wire::kPieceBytes) PACELINE_RETURN_IF_ERROR(flush());
    }
    return absl::OkStatus();
  }

  absl::Status commit() override {
    if (message_.has_piece()) PACELINE_RETURN_IF_ERROR(flush());
    wire::FileMessage whole;
    whole.set_whole(crc_);
    wire::FileMessage answer;
    const bool there = call_.write(whole) && call_.read(answer) && answer.has_whole();
    return there ? absl::OkStatus() : call_.broken();
  }

 private:
  absl::Status flush() {
    const bool sent = call_.write(message_);
    message_.Clear();
    return sent ? absl::OkStatus() : call_.broken();
  }

  FileCall call_;
  wire::FileMessage message_;  // the piece that is not full yet
  std::uint32_t crc_ = 0;
};

class InMemory final : public store::FileSink {
 public:
  InMemory(const FileDescriptor& memory, const std::string& name) : memory_(memory), name_(name) {}
  absl::Status write(const void* bytes, std::size_t count) override {
    return store::write_all(memory_, name_, bytes, count);
  }
  absl::Status commit() override { return absl::OkStatus(); }

 private:
  const FileDescriptor& memory_;
  const std::string& name_;
};

}  // namespace

CalledFiles::CalledFiles(Stub& stub, const rpc::Access& access, std::string dir,
                         std::vector<std::string> names, std::stop_token stop)
    : stub_(stub), access_(access), dir_(std::move(dir)), names_(std::move(names)), stop_(std::move(stop)) {}

absl::StatusOr<std::unique_ptr<store::FileSink>> CalledFiles::create(const std::string& name) {
  auto file = std::make_unique<SentFile>(stub_, access_, stop_);
  PACELINE_RETURN_IF_ERROR(file->begin(dir_, name));
  return file;
}

absl::StatusOr<std::filesystem::path> CalledFiles::to_read(const std::string& name) {
  for (const Fetched& one : fetched_) {
    if (one.name == name) return one.path;
  }
  if (std::find(names_.begin(), names_.end(), name) == names_.end())
    return absl::NotFoundError(fmt::format("{}/{}: no such file", dir_, name));
  FileDescriptor memory = new_memory_file(name);
  if (!memory.valid()) return store::io_error(name, "kept in memory", errno);
  InMemory file(memory, name);
  PACELINE_RETURN_IF_ERROR(copy(name, file));
  const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
  return fetched_.emplace_back(Fetched{name, std::move(memory), path}).path;
}

absl::Status CalledFiles::copy(const std::string& name, store::FileSink& to) {
  FileCall call(stub_, access_, stop_);
  wire::FileMessage message;
  message.mutable_get()->set_dir(dir_);
  message.mutable_get()->set_name(name);
  if (!call.write(message)) return call.broken();
  std::uint32_t crc = 0;
  while (call.read(message)) {
    if (message.has_whole() && message.whole() == crc) return to.commit();
    if (!message.has_piece())
      return absl::DataLossError(fmt::format("{}/{}: did not come as it was sent", dir_, name));
    crc = store::crc32_after(message.piece().data(), message.piece().size(), crc);
    PACELINE_RETURN_IF_ERROR(to.write(message.piece().data(), message.piece().size()));
  }
  return call.broken();
}

absl::Status CalledFiles::in_words(const absl::Status& status) const {
  std::string message(status.message());
  for (const Fetched& one : fetched_)
    message = absl::StrReplaceAll(message, {{one.path + ":", fmt::format("{}/{}:", dir_, one.name)}});
  return absl::Status(status.code(), message);
}

}  // namespace paceline::peer
