#include "textflag.h"

// func loop(acc, in []byte) (done int)
//
// DI: acc, SI: in, CX: the bytes that are left, AX: those that are done. Y0 … Y3: of acc, Y4 … Y7: of in.

#define BEGIN \
	MOVQ acc_base+0(FP), DI \
	MOVQ acc_len+8(FP), CX \
	MOVQ in_base+24(FP), SI \
	XORQ AX, AX

// LOOP folds 128 bytes at a time, then 32. FOLD(INSTRUCTION, in, acc) folds one register into another.
#define LOOP(FOLD, INSTRUCTION) \
	SUBQ $128, CX \
	JB few \
many: \
	VMOVDQU (DI)(AX*1), Y0 \
	VMOVDQU 32(DI)(AX*1), Y1 \
	VMOVDQU 64(DI)(AX*1), Y2 \
	VMOVDQU 96(DI)(AX*1), Y3 \
	VMOVDQU (SI)(AX*1), Y4 \
	VMOVDQU 32(SI)(AX*1), Y5 \
	VMOVDQU 64(SI)(AX*1), Y6 \
	VMOVDQU 96(SI)(AX*1), Y7 \
	FOLD(INSTRUCTION, Y4, Y0) \
	FOLD(INSTRUCTION, Y5, Y1) \
	FOLD(INSTRUCTION, Y6, Y2) \
	FOLD(INSTRUCTION, Y7, Y3) \
	VMOVDQU Y0, (DI)(AX*1) \
	VMOVDQU Y1, 32(DI)(AX*1) \
	VMOVDQU Y2, 64(DI)(AX*1) \
	VMOVDQU Y3, 96(DI)(AX*1) \
	ADDQ $128, AX \
	SUBQ $128, CX \
	JAE many \
few: \
	ADDQ $96, CX \
	JL done \
one: \
	VMOVDQU (DI)(AX*1), Y0 \
	VMOVDQU (SI)(AX*1), Y4 \
	FOLD(INSTRUCTION, Y4, Y0) \
	VMOVDQU Y0, (DI)(AX*1) \
	ADDQ $32, AX \
	SUBQ $32, CX \
	JGE one \
done: \
	VZEROUPPER \
	MOVQ AX, done+48(FP) \
	RET

#define PLAIN(INSTRUCTION, in, acc) INSTRUCTION in, acc, acc

// There is no minimum of 64 bits: what is greater is replaced.
#define LEAST64(INSTRUCTION, in, acc) \
	VPCMPGTQ in, acc, Y8 \
	VBLENDVPD Y8, in, acc, acc

#define MOST64(INSTRUCTION, in, acc) \
	VPCMPGTQ acc, in, Y8 \
	VBLENDVPD Y8, in, acc, acc

// LEAST is what the compiler makes of min: the instruction gives its second operand where one is a NaN or both are zeros, so it is asked
// twice, and what either says is combined: a NaN stays one, and a sign stays.
#define LEAST(INSTRUCTION, in, acc) \
	INSTRUCTION in, acc, Y8 \
	INSTRUCTION acc, Y8, Y9 \
	VPOR Y8, Y9, acc

// MOST is the minimum of the numbers with the other sign, with the other sign. Y15: the sign's bits.
#define MOST(INSTRUCTION, in, acc) \
	VPXOR Y15, in, in \
	VPXOR Y15, acc, acc \
	LEAST(INSTRUCTION, in, acc) \
	VPXOR Y15, acc, acc

#define SIGNS(SHIFT, bits) \
	VPCMPEQD Y15, Y15, Y15 \
	SHIFT bits, Y15, Y15

TEXT ·sum8(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPADDB)

TEXT ·sum16(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPADDW)

TEXT ·sum32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPADDD)

TEXT ·sum64(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPADDQ)

TEXT ·sumFloat32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VADDPS)

TEXT ·sumFloat64(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VADDPD)

TEXT ·prod16(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMULLW)

TEXT ·prod32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMULLD)

TEXT ·prodFloat32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VMULPS)

TEXT ·prodFloat64(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VMULPD)

TEXT ·minInt8(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMINSB)

TEXT ·maxInt8(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMAXSB)

TEXT ·minInt16(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMINSW)

TEXT ·maxInt16(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMAXSW)

TEXT ·minInt32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMINSD)

TEXT ·maxInt32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMAXSD)

TEXT ·minUint8(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMINUB)

TEXT ·maxUint8(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMAXUB)

TEXT ·minUint16(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMINUW)

TEXT ·maxUint16(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMAXUW)

TEXT ·minUint32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMINUD)

TEXT ·maxUint32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(PLAIN, VPMAXUD)

TEXT ·minInt64(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(LEAST64, VPCMPGTQ)

TEXT ·maxInt64(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(MOST64, VPCMPGTQ)

TEXT ·minFloat32(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(LEAST, VMINPS)

TEXT ·maxFloat32(SB), NOSPLIT, $0-56
	BEGIN
	SIGNS(VPSLLD, $31)
	LOOP(MOST, VMINPS)

TEXT ·minFloat64(SB), NOSPLIT, $0-56
	BEGIN
	LOOP(LEAST, VMINPD)

TEXT ·maxFloat64(SB), NOSPLIT, $0-56
	BEGIN
	SIGNS(VPSLLQ, $63)
	LOOP(MOST, VMINPD)
