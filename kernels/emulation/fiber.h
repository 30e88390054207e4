// Fibers: stacks that take turns on one thread of the processor. Each CUDA thread is one.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace sdrop::emulation {

// Where a fiber stands while another one runs.
struct Context {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t registers;
#endif
  const void* stack_bottom = nullptr;
  std::size_t stack_bytes = 0;
  void* sanitizer_stack = nullptr;
};

#if defined(__x86_64__)
// Keeps the registers that the System V calling convention lets a function expect unchanged.
__attribute__((naked, noipa)) inline void swap_stacks(void** /*save*/, void* /*load*/) {
  asm volatile(
      "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}
#endif

inline void switch_fiber(Context& from, Context& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.sanitizer_stack, to.stack_bottom, to.stack_bytes);
#endif
#if defined(__x86_64__)
  swap_stacks(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.registers, &to.registers);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.sanitizer_stack, nullptr, nullptr);
#endif
}

// To be called first on a new fiber: AddressSanitizer learns whose stack `from` was.
inline void enter_fiber([[maybe_unused]] Context& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &from.stack_bottom, &from.stack_bytes);
#endif
}

// Makes `fiber` one that calls `entry`, which must never return, when it is first switched to.
inline void prepare_fiber(Context& fiber, char* stack, std::size_t bytes, void (*entry)()) {
  fiber.stack_bottom = stack;
  fiber.stack_bytes = bytes;
  fiber.sanitizer_stack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, bytes);  // the last fiber here never returned
#endif
#if defined(__x86_64__)
  auto** top = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack + bytes) &
                                        ~std::uintptr_t{15});
  *--top = nullptr;  // at a function's entry the stack is 8 bytes off a multiple of 16
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.stack_pointer = top;
#else
  getcontext(&fiber.registers);
  fiber.registers.uc_stack.ss_sp = stack;
  fiber.registers.uc_stack.ss_size = bytes;
  fiber.registers.uc_link = nullptr;
  makecontext(&fiber.registers, entry, 0);
#endif
}

}  // namespace sdrop::emulation
