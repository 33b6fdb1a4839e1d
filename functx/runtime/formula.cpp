#include "formula.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace functx {

namespace {

constexpr size_t kMaxDepth = 64;

// As in Python: rounded down, and a remainder with the sign of the divisor.
bool divide(int64_t a, int64_t b, int64_t& quotient, int64_t& remainder) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return false;
  quotient = a / b;
  remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return true;
}

}  // namespace

Formula::Formula(std::vector<int64_t> program, size_t sizes) : program_(std::move(program)) {
  size_t depth = 0;
  for (size_t at = 0; at < program_.size(); ++at) {
    const int64_t op = program_[at];
    if (op == kConstant || op == kSize) {
      if (++at == program_.size()) throw std::invalid_argument("a formula ends too early");
      if (op == kSize && (program_[at] < 0 || static_cast<size_t>(program_[at]) >= sizes))
        throw std::invalid_argument("a formula reads a size that there is not");
      if (++depth > kMaxDepth) throw std::invalid_argument("a formula is too deep");
    } else if (op < kAdd || op > kModulo || depth < 2) {
      throw std::invalid_argument("a formula is not well-formed");
    } else {
      --depth;
    }
  }
  if (depth != 1) throw std::invalid_argument("a formula is not well-formed");
}

bool Formula::evaluate(const int64_t* sizes, int64_t& value) const {
  int64_t stack[kMaxDepth];
  size_t depth = 0;
  for (size_t at = 0; at < program_.size(); ++at) {
    const int64_t op = program_[at];
    if (op == kConstant || op == kSize) {
      const int64_t operand = program_[++at];
      stack[depth++] = op == kConstant ? operand : sizes[operand];
      continue;
    }
    const int64_t b = stack[--depth];
    int64_t& a = stack[depth - 1];
    int64_t quotient = 0, remainder = 0;
    switch (op) {
      case kAdd:
        if (__builtin_add_overflow(a, b, &a)) return false;
        break;
      case kMultiply:
        if (__builtin_mul_overflow(a, b, &a)) return false;
        break;
      case kMaximum:
        a = std::max(a, b);
        break;
      case kMinimum:
        a = std::min(a, b);
        break;
      default:
        if (!divide(a, b, quotient, remainder)) return false;
        a = op == kFloorDivide ? quotient : remainder;
    }
  }
  value = stack[0];
  return true;
}

}  // namespace functx
