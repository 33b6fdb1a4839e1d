/* The ABI between functx and the code it generates: plain C, one struct and one function.
 *
 * A compiled library exports `run`. The caller fills a FunctxCall, allocates every output and calls it; `run` returns
 * FUNCTX_OK, or any other value after filling the error slot; inputs are then as they were. An input that is written is
 * updated where it lies. `run` never throws, aborts or keeps a pointer after it returns.
 * It runs without Python's lock; only `callback` takes it. */
#ifndef FUNCTX_CALL_H
#define FUNCTX_CALL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, in error_kind, and what error_values then hold. */
enum {
  FUNCTX_OK = 0,
  FUNCTX_INDEX_OUT_OF_BOUNDS = 1, /* index, axis, size */
  FUNCTX_CALLBACK_FAILED = 2,     /* the exception itself is kept by the caller */
  FUNCTX_OUT_OF_MEMORY = 3,       /* bytes asked for */
  FUNCTX_OVERFLOW = 4
};

typedef struct FunctxCall {
  void* const* inputs;           /* data pointers, one per input; `run` writes to those only of which outputs are new values */
  const int64_t* const* strides; /* byte strides of each input, rank entries; may be zero or negative */
  void** outputs;                /* C-contiguous, allocated by the caller; the new value of an input is that input itself. Where NULL, for a
                                  * result of a size that `run` finds, it leaves memory from malloc there, for the caller to free */
  int64_t* dims;                 /* sizes known only at run time: those that inputs tell, then room for those that `run` finds; or NULL */
  void* workspace;               /* one arena, 64-byte aligned, contents undefined; never NULL */

  /* Memory for a size known only at run time: 64-byte aligned, contents undefined, freed after `run` returns. NULL when
   * there is none. Call it from the thread that entered `run` only. */
  void* (*allocate)(void* context, int64_t bytes);

  /* The reference implementation of an equation. Both arrays end with a NULL pointer, for their lengths are not passed;
   * so no entry may be NULL, not even that of a zero-size array. Non-zero: stop with FUNCTX_CALLBACK_FAILED. */
  int (*callback)(void* context, int32_t eqn, void* const* inputs, void* const* outputs);

  void* context; /* first argument of `allocate` and `callback` */

  int32_t error_eqn; /* the error slot: read when run returns non-zero */
  int32_t error_kind;
  int64_t error_values[4];
} FunctxCall;

/* Visible even under -fvisibility=hidden. */
__attribute__((visibility("default"))) int run(FunctxCall* call);

#ifdef __cplusplus
}
#endif
#endif
