#include "textflag.h"

// PREFETCHW at(DI)
#define OWN(at) BYTE $0x0f; BYTE $0x0d; BYTE $0x8f; LONG $at

// LINE copies a line and goes on to the next.
#define LINE VMOVDQU (SI), Y0; VMOVDQU 32(SI), Y1; VMOVDQU Y0, (DI); VMOVDQU Y1, 32(DI); ADDQ $64, SI; ADDQ $64, DI; SUBQ $64, CX

// func take(to, from *byte, n int)
//
// DI: to, on a line; SI: from; CX: the bytes that are left, whole lines.
TEXT ·take(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ $512, CX
	JLE rest

ahead:
	PREFETCHT0 512(SI)
	OWN(512)
	LINE
	JG ahead

rest:
	ADDQ $512, CX

line:
	LINE
	JG line
	VZEROUPPER
	RET
