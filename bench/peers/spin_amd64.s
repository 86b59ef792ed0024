#include "textflag.h"

// func spinPause(p *uint64, v uint64, spins int) bool
TEXT ·spinPause(SB), NOSPLIT, $0-25
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ spins+16(FP), CX

look:
	MOVQ (AX), DX
	CMPQ DX, BX
	JEQ  came
	PAUSE
	DECQ CX
	JGT  look
	MOVB $0, ret+24(FP)
	RET

came:
	MOVB $1, ret+24(FP)
	RET
