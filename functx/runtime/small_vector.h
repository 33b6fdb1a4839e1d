// A vector whose first elements live on the stack: the lists of one call are short, and the heap would cost more than the call.

#ifndef FUNCTX_RUNTIME_SMALL_VECTOR_H
#define FUNCTX_RUNTIME_SMALL_VECTOR_H

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

namespace functx {

template <class T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable<T>::value, "elements are moved as bytes");

 public:
  SmallVector() = default;
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  void push_back(T value) {
    if (size_ == capacity_) grow(2 * capacity_);
    data_[size_++] = value;
  }
  void resize(size_t size) {
    if (size > capacity_) grow(size);
    size_ = size;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void grow(size_t capacity) {
    std::unique_ptr<T[]> larger(new T[capacity]);
    std::memcpy(larger.get(), data_, size_ * sizeof(T));
    heap_ = std::move(larger);
    data_ = heap_.get();
    capacity_ = capacity;
  }

  T inline_[N];
  std::unique_ptr<T[]> heap_;
  T* data_ = inline_;
  size_t size_ = 0, capacity_ = N;
};

}  // namespace functx

#endif
