/* immintrin.h - vectors as cl.exe has them: types without operators, casts and subscripts, and the intrinsics that fold.h calls, by
   their documented prototypes. For syntax alone: code that compiles with it uses vectors in no other way. ARM64EC has 128 bits. */

#ifndef MODEL_IMMINTRIN_H
#define MODEL_IMMINTRIN_H

#ifdef __cplusplus
extern "C" {
#endif

typedef union __m128 { float lane[4]; } __m128;
typedef union __m128d { double lane[2]; } __m128d;
typedef union __m128i { int lane[4]; } __m128i;

/* Functions of the same operands: F(name) declares one. */
#define F(name) __m128 _mm_##name##_ps(__m128, __m128);
F(add) F(and) F(cmple) F(movehl) F(movelh) F(unpackhi) F(unpacklo)
#undef F
#define F(name) __m128i _mm_##name(__m128i, __m128i);
F(add_epi32) F(and_si128) F(andnot_si128) F(cmpeq_epi32) F(madd_epi16) F(max_epu32) F(or_si128) F(packs_epi32) F(unpacklo_epi8)
#undef F
#define F(name) __m128d _mm_##name##_pd(__m128d, __m128d);
F(add) F(mul)
#undef F
#define F(name) __m128i _mm_##name(__m128i, int);
F(shuffle_epi32) F(slli_epi32) F(srai_epi16)
#undef F
__m128 _mm_add_ss(__m128, __m128);
__m128 _mm_max_ps(__m128, __m128);
__m128 _mm_max_ss(__m128, __m128);
__m128 _mm_castpd_ps(__m128d);
__m128i _mm_castps_si128(__m128);
__m128 _mm_castsi128_ps(__m128i);
__m128 _mm_cvtepi32_ps(__m128i);
__m128 _mm_cvtpd_ps(__m128d);
__m128d _mm_cvtps_pd(__m128);
int _mm_cvtsi128_si32(__m128i);
float _mm_cvtss_f32(__m128);
unsigned _mm_getcsr(void);
__m128i _mm_loadl_epi64(const __m128i *);
__m128 _mm_loadu_ps(const float *);
__m128i _mm_loadu_si128(const __m128i *);
int _mm_movemask_epi8(__m128i);
__m128i _mm_set1_epi32(int);
__m128 _mm_set1_ps(float);
void _mm_setcsr(unsigned);
__m128i _mm_setzero_si128(void);
__m128 _mm_shuffle_ps(__m128, __m128, unsigned);
__m128 _mm_sqrt_ps(__m128);
void _mm_storeu_ps(float *, __m128);
void _mm_storeu_si128(__m128i *, __m128i);

#ifndef _M_ARM64EC
typedef union __m256 { float lane[8]; } __m256;
typedef union __m256i { int lane[8]; } __m256i;
typedef union __m512 { float lane[16]; } __m512;
typedef union __m512i { int lane[16]; } __m512i;
typedef unsigned char __mmask8;
typedef unsigned short __mmask16;
enum { _CMP_EQ_OQ = 0, _CMP_LT_OQ = 17, _CMP_LE_OQ = 18 };

#define F(name) __m256 _mm256_##name##_ps(__m256, __m256);
F(add) F(div) F(max) F(min) F(mul) F(sub) F(unpackhi) F(unpacklo)
#undef F
#define F(name) __m256i _mm256_##name(__m256i, __m256i);
F(add_epi32) F(and_si256) F(madd_epi16) F(max_epu32) F(sub_epi32) F(xor_si256)
#undef F
__m256 _mm256_blendv_ps(__m256, __m256, __m256);
__m256 _mm256_castps128_ps256(__m128);
__m128 _mm256_castps256_ps128(__m256);
__m256i _mm256_castps_si256(__m256);
__m256 _mm256_castsi256_ps(__m256i);
__m128i _mm256_castsi256_si128(__m256i);
__m256 _mm256_cmp_ps(__m256, __m256, const int);
__m256 _mm256_cvtepi32_ps(__m256i);
__m256i _mm256_cvtepi8_epi16(__m128i);
__m128 _mm256_extractf128_ps(__m256, const int);
__m128i _mm256_extracti128_si256(__m256i, const int);
__m256 _mm256_fmadd_ps(__m256, __m256, __m256);
__m256 _mm256_insertf128_ps(__m256, __m128, int);
__m256 _mm256_loadu_ps(const float *);
__m256i _mm256_loadu_si256(const __m256i *);
void _mm256_mask_storeu_ps(void *, __mmask8, __m256);
__m256 _mm256_maskload_ps(const float *, __m256i);
void _mm256_maskstore_ps(float *, __m256i, __m256);
__m256 _mm256_maskz_loadu_ps(__mmask8, const void *);
__m256 _mm256_permute2f128_ps(__m256, __m256, int);
__m256i _mm256_set1_epi32(int);
__m256 _mm256_set1_ps(float);
__m256 _mm256_setr_ps(float, float, float, float, float, float, float, float);
__m256 _mm256_setzero_ps(void);
__m256 _mm256_shuffle_ps(__m256, __m256, const int);
__m256i _mm256_slli_epi32(__m256i, int);
__m256 _mm256_sqrt_ps(__m256);
__m256i _mm256_srli_epi32(__m256i, int);
void _mm256_storeu_ps(float *, __m256);
void _mm256_zeroupper(void);

#define F(name) __m512 _mm512_##name##_ps(__m512, __m512);
F(add) F(div) F(mul) F(sub)
#undef F
#define F(name) __m512i _mm512_##name(__m512i, __m512i);
F(add_epi32) F(and_si512) F(sub_epi32) F(xor_si512)
#undef F
__m512 _mm512_castps256_ps512(__m256);
__m512i _mm512_castps_si512(__m512);
__m512 _mm512_castsi512_ps(__m512i);
__mmask16 _mm512_cmp_ps_mask(__m512, __m512, const int);
__m512i _mm512_dpbusd_epi32(__m512i, __m512i, __m512i);
__m512 _mm512_fmadd_ps(__m512, __m512, __m512);
__m512 _mm512_loadu_ps(const void *);
__m512i _mm512_loadu_si512(const void *);
__m512 _mm512_mask_blend_ps(__mmask16, __m512, __m512);
void _mm512_mask_storeu_ps(void *, __mmask16, __m512);
__m128i _mm512_maskz_cvtepi32_epi8(__mmask16, __m512i);
__m512 _mm512_maskz_cvtepi32_ps(__mmask16, __m512i);
__m256 _mm512_maskz_extractf32x8_ps(__mmask8, __m512, int);
__m256i _mm512_maskz_extracti64x4_epi64(__mmask8, __m512i, int);
__m512 _mm512_maskz_insertf32x8(__mmask16, __m512, __m256, int);
__m512 _mm512_maskz_loadu_ps(__mmask16, const void *);
__m512i _mm512_maskz_max_epu32(__mmask16, __m512i, __m512i);
__m512 _mm512_maskz_max_ps(__mmask16, __m512, __m512);
__m512 _mm512_maskz_min_ps(__mmask16, __m512, __m512);
__m512i _mm512_maskz_slli_epi32(__mmask16, __m512i, unsigned);
__m512i _mm512_maskz_srli_epi32(__mmask16, __m512i, unsigned);
__m512 _mm512_maskz_sqrt_ps(__mmask16, __m512);
__m512i _mm512_set1_epi32(int);
__m512 _mm512_set1_ps(float);
__m512 _mm512_setzero_ps(void);
void _mm512_storeu_ps(void *, __m512);
#endif

#ifdef __cplusplus
}
#endif

#endif /* MODEL_IMMINTRIN_H */
