@@ thread-local
/* The @bytes@ bytes of scratch are too many for some stacks: they are in a variable that each
   thread has of its own. The functions "_with" take memory of the caller's instead. */
#if !defined(@UPPER@_LOCAL)
#if defined(__cplusplus)
#define @UPPER@_LOCAL thread_local
#elif defined(__GNUC__)
#define @UPPER@_LOCAL __thread
#elif defined(_MSC_VER)
#define @UPPER@_LOCAL __declspec(thread)
#elif __STDC_VERSION__ >= 201112L && !defined(__STDC_NO_THREADS__)
#define @UPPER@_LOCAL _Thread_local
#else
#error "define @UPPER@_LOCAL as what makes a variable thread-local, or as nothing for one thread"
#endif
#endif
@@ counts
#define @UPPER@_GROUPS @groups@

/* How many outputs of each group are 1, in each of 64 rows; the class is the group with most.
   A word for each binary digit of the count takes one output after the other. */
void @name@_counts_with(const uint64_t x[@inputs@], int32_t counts[64][@groups@],
                        uint64_t scratch[@words@]) {
  @name@_gates(x, scratch);
  for (int32_t k = 0; k < @groups@; k++) {
    uint64_t digit[@digits@] = {0};
    for (int32_t j = 0; j < @each@; j++) {
      uint64_t carry = scratch[@name@_stores[@each@ * k + j]];
      for (int p = 0; carry && p < @digits@; p++) {
        uint64_t next = digit[p] & carry;
        digit[p] ^= carry;
        carry = next;
      }
    }
    for (int i = 0; i < 64; i++) {
      int32_t count = 0;
      for (int p = 0; p < @digits@; p++) count |= (int32_t)(digit[p] >> i & 1) << p;
      counts[i][k] = count;
    }
  }
}

void @name@_counts(const uint64_t x[@inputs@], int32_t counts[64][@groups@]) {
@scratch@
  @name@_counts_with(x, counts, scratch);
}
@@ pack
#define @UPPER@_FEATURES @features@

static const @kind@ @name@_thresholds[@size@] = {@numbers@};

/* Up to 64 rows of numbers as bits: whether each is above each of its thresholds. */
void @name@_pack(const @kind@ *x, int rows, uint64_t in[@inputs@]) {
  for (int j = 0; j < @inputs@; j++) in[j] = 0;
  for (int i = 0; i < rows; i++)
    for (int f = 0; f < @features@; f++)
      for (int t = 0; t < @each@; t++)
        in[@each@ * f + t] |= (uint64_t)(x[@features@ * i + f] > @name@_thresholds[@place@]) << i;
}
