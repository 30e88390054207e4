// Which of the compilations this processor runs.
#include <cstdlib>
#include <cstring>

#ifdef SDROP_X86
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "interface.h"

namespace sdrop {

namespace portable {
extern const Kernels float32_kernels, bfloat16_kernels;
}
#ifdef SDROP_X86
namespace avx2 {
extern const Kernels float32_kernels;
}
namespace avx512 {
extern const Kernels float32_kernels;
}
namespace avx512_bf16 {
extern const Kernels bfloat16_kernels;
}
namespace amx {
extern const Kernels bfloat16_kernels;
}
#endif

namespace {

enum class Capability { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx };

#ifdef SDROP_X86
// Linux gives a process the tile registers when it asks for them.
bool have_tiles() {
  if (!__builtin_cpu_supports("avx512vbmi2")) return false;  // no processor has tiles without it
  unsigned eax = 7, ebx, ecx = 0, edx;
  asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

Capability find() {
#ifdef SDROP_X86
  const char* set = std::getenv("SDROP_CPU_CAPABILITY");
  const auto asked_for = [set](const char* name) { return set && std::strcmp(set, name) == 0; };
  __builtin_cpu_init();
  if (asked_for("default") || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return Capability::kPortable;
  if (asked_for("avx2") || !__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512bw"))
    return Capability::kAvx2;
  if (asked_for("avx512") || !__builtin_cpu_supports("avx512bf16")) return Capability::kAvx512;
  if (asked_for("avx512_bf16") || !have_tiles()) return Capability::kAvx512Bf16;
  return Capability::kAmx;
#else
  return Capability::kPortable;
#endif
}

Capability capability() {
  static const Capability found = find();
  return found;
}

}  // namespace

const Kernels& kernels() {
#ifdef SDROP_X86
  if (capability() >= Capability::kAvx512) return avx512::float32_kernels;
  if (capability() == Capability::kAvx2) return avx2::float32_kernels;
#endif
  return portable::float32_kernels;
}

BFloat16Kernels bfloat16_kernels() {
#ifdef SDROP_X86
  if (capability() == Capability::kAmx) return {amx::bfloat16_kernels, true};
  if (capability() == Capability::kAvx512Bf16) return {avx512_bf16::bfloat16_kernels, true};
#endif
  return {portable::bfloat16_kernels, false};
}

}  // namespace sdrop
