#include "paceline/processes/rpc/access.h"

#include <algorithm>

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/create_channel_posix.h>

#include "paceline/base/program_version.h"
#include "paceline/base/text_hash.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/rpc/local_socket.h"
#include "paceline/transport/security/preflight.h"
#include "paceline/transport/security/token.h"

namespace paceline::rpc {

namespace {

constexpr char kTokenKey[] = "paceline-token";
constexpr char kProgramKey[] = "paceline-program";
constexpr std::size_t kLongestProgram = 100;
constexpr int kPingEvery_ms = 5000;
constexpr int kPingLimit_ms = 10000;

grpc::Status refuse(const std::string& why) { return {grpc::StatusCode::PERMISSION_DENIED, why}; }

// The version, and a short name of the set of messages: these may change while the version does not.
const std::string& this_program() {
  static const std::string program = [] {
    google::protobuf::FileDescriptorProto messages;
    wire::Disconnect::descriptor()->file()->CopyTo(&messages);
    return fmt::format("{} (messages {:08x})", kProgramVersion,
                       static_cast<std::uint32_t>(text_hash(messages.SerializeAsString())));
  }();
  return program;
}

// The identity in the peer's certificate; nothing unless the certificate names exactly one.
std::optional<security::Identity> identity_of(const grpc::AuthContext& peer) {
  const auto uris = peer.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
  if (uris.size() != 1) return std::nullopt;
  return security::identity_of(std::string_view(uris.front().data(), uris.front().size()));
}

grpc::Status admit(const std::optional<security::Identity>& peer, const std::string& job,
                   const std::vector<security::Role>& roles) {
  if (!peer) return refuse("its certificate says no job and no role");
  if (peer->job != job)
    return refuse(fmt::format("its certificate is of the job '{}', and this is '{}'", peer->job, job));
  std::string wanted;
  for (const security::Role role : roles) {
    if (peer->role == role) return grpc::Status::OK;
    wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", to_string(role));
  }
  return refuse(
      fmt::format("its certificate is of the role {}, and this takes {}", to_string(peer->role), wanted));
}

}  // namespace

std::shared_ptr<grpc::Channel> channel_to(const std::string& address, const Access& access,
                                          std::chrono::milliseconds limit) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEvery_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingLimit_ms);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A new channel starts its own connection, and does not wait out the pauses of an earlier channel.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Ignores http_proxy: a coordinator is never behind a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kLongestFrame));
  if (!access.credentials) {
    auto connection = security::connect_with_token(address, access.token, limit);
    if (!connection.ok()) return grpc::CreateChannel(address, nullptr);
    return grpc::CreateCustomInsecureChannelFromFd(address, connection->release(), arguments);
  }
  const security::Credentials& own = *access.credentials;
  arguments.SetSslTargetNameOverride(security::coordinator_name(own.own.job));
  const grpc::SslCredentialsOptions options{own.authority, own.key, own.certificate};
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
}

absl::Status preflight(const std::string& address, const Access& access, std::chrono::milliseconds limit) {
  if (access.credentials) return security::preflight(address, *access.credentials, limit);
  return security::connect_with_token(address, access.token, limit).status();
}

void introduce(grpc::ClientContext& context, const Access& access) {
  context.AddMetadata(kProgramKey, this_program());
  context.AddMetadata(kTokenKey, access.token);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Access& access) {
  if (!access.credentials) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = access.credentials->authority;
  options.pem_key_cert_pairs.push_back({access.credentials->key, access.credentials->certificate});
  return grpc::SslServerCredentials(options);
}

grpc::Status admit(const grpc::CallbackServerContext& context, const Access& access,
                   const std::vector<security::Role>& roles) {
  if (access.credentials) {
    const grpc::Status known =
        admit(identity_of(*context.auth_context()), access.credentials->own.job, roles);
    if (!known.ok()) return known;
  }
  const auto& said = context.client_metadata();
  const auto token = said.find(kTokenKey);
  const bool right = token != said.end() && said.count(kTokenKey) == 1 &&
                     security::same_token({token->second.data(), token->second.size()}, access.token);
  return right ? grpc::Status::OK : refuse("it does not show this job's token");
}

grpc::Status same_program(const grpc::CallbackServerContext& context) {
  const auto& said = context.client_metadata();
  const auto found = said.find(kProgramKey);
  if (found == said.end()) return refuse("it does not say which version of Paceline it is");
  // gRPC lets only printable characters through.
  const std::string theirs(found->second.data(), std::min(found->second.size(), kLongestProgram));
  if (theirs == this_program()) return grpc::Status::OK;
  return refuse(
      fmt::format("it is paceline {}, and the coordinator is {}; install the same version on all hosts",
                  theirs, this_program()));
}

}  // namespace paceline::rpc
