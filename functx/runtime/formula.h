// Sizes that follow from others: programs for a stack machine, made by functx/sizes.py, which defines what they mean.

#ifndef FUNCTX_RUNTIME_FORMULA_H
#define FUNCTX_RUNTIME_FORMULA_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace functx {

class Formula {
 public:
  enum Op : int64_t { kConstant, kSize, kAdd, kMultiply, kMaximum, kMinimum, kFloorDivide, kModulo };

  Formula() = default;
  // Throws std::invalid_argument for a program that is not well-formed, or that reads another size than the first `sizes`.
  Formula(std::vector<int64_t> program, std::size_t sizes);

  // False: it overflows int64, or divides by zero.
  bool evaluate(const int64_t* sizes, int64_t& value) const;

 private:
  std::vector<int64_t> program_;
};

}  // namespace functx

#endif
