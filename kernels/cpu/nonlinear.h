// exp, sigmoid and tanh of a vector, each within about 1e-7 of the true value.
#pragma once

#include "vector.h"

namespace sdrop::SDROP_CAPABILITY {

// exp by 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (Cephes' coefficients). Beyond +-87 the
// argument is held, so that neither the result nor its inverse is a denormal. NaN passes through:
// no comparison with it holds, and the polynomial keeps it.
SDROP_INLINE Vector exponential(Vector x) {
  const Vector most = broadcast(87.0f), least = broadcast(-87.0f);
  x = x > most ? most : x;
  x = x < least ? least : x;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const Vector shifted = x * 1.44269504f + 12582912.0f;
  const Vector n = shifted - 12582912.0f;
  Vector f = x - n * 0.693359375f;
  f = f + n * 2.12194440e-4f;
  Vector p = f * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * (f * f) + (f + 1.0f);
  const IntVector power = ((IntVector)shifted - 0x4B400000 + 127) << 23;
  return p * (Vector)power;
}

SDROP_INLINE Vector sigmoid(Vector x) { return 1.0f / (1.0f + exponential(-x)); }

// Near zero the quotient would lose the low bits of x; there an odd polynomial (Cephes' again).
SDROP_INLINE Vector hyperbolic_tangent(Vector x) {
  const Vector far = 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
  const Vector z = x * x;
  Vector p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Vector near = p * z * x + x;
  return z < 0.390625f ? near : far;  // |x| < 0.625
}

}  // namespace sdrop::SDROP_CAPABILITY
