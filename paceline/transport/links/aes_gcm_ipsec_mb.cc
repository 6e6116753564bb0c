#include "paceline/transport/links/aes_gcm.h"

#ifdef PACELINE_IPSEC_MB
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#endif

namespace paceline::links {

#ifdef PACELINE_IPSEC_MB

namespace {

struct FreeManager {
  void operator()(IMB_MGR* manager) const { free_mb_mgr(manager); }
};

// The library's functions for this processor: looked up once, then only read. Null if it would not be faster
// than OpenSSL.
IMB_MGR* functions() {
  static const std::unique_ptr<IMB_MGR, FreeManager> kFunctions = [] {
    std::unique_ptr<IMB_MGR, FreeManager> manager(alloc_mb_mgr(0));
    if (manager == nullptr) return manager;
    IMB_ARCH arch = IMB_ARCH_NONE;
    init_mb_mgr_auto(manager.get(), &arch);
    constexpr std::uint64_t kWideAes = IMB_FEATURE_AVX512_SKX | IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ;
    if (arch != IMB_ARCH_AVX512 || (manager->features & kWideAes) != kWideAes) manager.reset();
    return manager;
  }();
  return kFunctions.get();
}

class IpsecMbGcm final : public AesGcm {
 public:
  explicit IpsecMbGcm(const SealKey& key) { IMB_AES128_GCM_PRE(functions(), key.data(), &key_); }
  ~IpsecMbGcm() override { OPENSSL_cleanse(&key_, sizeof key_); }

  void seal(const GcmNonce& nonce, std::span<const std::byte> head, std::span<const std::byte> plain,
            std::byte* sealed, std::byte* tag) override {
    IMB_AES128_GCM_ENC(functions(), &key_, &context_, raw(sealed), raw(plain.data()), plain.size(),
                       nonce.data(), raw(head.data()), head.size(), raw(tag), kGcmTagBytes);
  }

  bool open(const GcmNonce& nonce, std::span<const std::byte> head, std::span<std::byte> data,
            std::span<const std::byte, kGcmTagBytes> tag) override {
    std::array<std::byte, kGcmTagBytes> made;
    IMB_AES128_GCM_DEC(functions(), &key_, &context_, raw(data.data()), raw(data.data()), data.size(),
                       nonce.data(), raw(head.data()), head.size(), raw(made.data()), kGcmTagBytes);
    return CRYPTO_memcmp(made.data(), tag.data(), kGcmTagBytes) == 0;
  }

 private:
  static const std::uint8_t* raw(const std::byte* bytes) {
    return reinterpret_cast<const std::uint8_t*>(bytes);
  }
  static std::uint8_t* raw(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }

  // The library's header aligns them only if LINUX is defined.
  alignas(64) gcm_key_data key_{};
  alignas(64) gcm_context_data context_{};
};

}  // namespace

std::unique_ptr<AesGcm> ipsec_mb_aes_gcm(const SealKey& key) {
  return functions() == nullptr ? nullptr : std::make_unique<IpsecMbGcm>(key);
}

#else

std::unique_ptr<AesGcm> ipsec_mb_aes_gcm(const SealKey&) { return nullptr; }

#endif

}  // namespace paceline::links
