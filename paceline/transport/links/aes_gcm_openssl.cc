#include <algorithm>

#include <openssl/evp.h>

#include "paceline/transport/links/aes_gcm.h"
#include "paceline/transport/links/openssl_calls.h"

namespace paceline::links {

namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

// A context is for one direction, so each is made when it is first needed.
class OpenSslGcm final : public AesGcm {
 public:
  explicit OpenSslGcm(const SealKey& key) : key_(key) {}

  void seal(const GcmNonce& nonce, std::span<const std::byte> head, std::span<const std::byte> plain,
            std::byte* sealed, std::byte* tag) override {
    EVP_CIPHER_CTX* context = begin(nonce, head, kSeal);
    int bytes = 0;
    unsigned char none = 0;
    if (!plain.empty()) {
      must(EVP_CipherUpdate(context, raw(sealed), &bytes, raw(plain.data()), static_cast<int>(plain.size())),
           "encrypt");
    }
    must(EVP_CipherFinal_ex(context, &none, &bytes), "final");
    must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kGcmTagBytes, tag), "tag");
  }

  bool open(const GcmNonce& nonce, std::span<const std::byte> head, std::span<std::byte> data,
            std::span<const std::byte, kGcmTagBytes> tag) override {
    EVP_CIPHER_CTX* context = begin(nonce, head, kOpen);
    int bytes = 0;
    unsigned char none = 0;
    if (!data.empty()) {
      must(EVP_CipherUpdate(context, raw(data.data()), &bytes, raw(data.data()),
                            static_cast<int>(data.size())),
           "decrypt");
    }
    std::array<std::byte, kGcmTagBytes> expected;
    std::copy(tag.begin(), tag.end(), expected.begin());
    must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kGcmTagBytes, expected.data()), "tag");
    return EVP_CipherFinal_ex(context, &none, &bytes) == 1;
  }

 private:
  enum Direction { kOpen = 0, kSeal = 1 };

  EVP_CIPHER_CTX* begin(const GcmNonce& nonce, std::span<const std::byte> head, Direction direction) {
    auto& context = contexts_[direction];
    if (context == nullptr) {
      context.reset(EVP_CIPHER_CTX_new());
      must(EVP_CipherInit_ex(context.get(), EVP_aes_128_gcm(), nullptr, raw(key_.data()), nullptr, direction),
           "init");
    }
    int bytes = 0;
    must(EVP_CipherInit_ex(context.get(), nullptr, nullptr, nullptr, nonce.data(), direction), "nonce");
    must(EVP_CipherUpdate(context.get(), nullptr, &bytes, raw(head.data()), static_cast<int>(head.size())),
         "head");
    return context.get();
  }

  const SealKey key_;
  std::array<std::unique_ptr<EVP_CIPHER_CTX, FreeContext>, 2> contexts_;
};

}  // namespace

std::unique_ptr<AesGcm> openssl_aes_gcm(const SealKey& key) { return std::make_unique<OpenSslGcm>(key); }

std::unique_ptr<AesGcm> fastest_aes_gcm(const SealKey& key) {
  auto fastest = ipsec_mb_aes_gcm(key);
  return fastest != nullptr ? std::move(fastest) : openssl_aes_gcm(key);
}

}  // namespace paceline::links
