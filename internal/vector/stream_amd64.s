#include "textflag.h"

// func stream(to, from *byte, n int)
//
// DI: to, on a line; SI: from; CX: the bytes that are left, whole lines.
TEXT ·stream(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ n+16(FP), CX

line:
	PREFETCHNTA 512(SI)
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVNTO X0, (DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JNZ line
	SFENCE
	RET
