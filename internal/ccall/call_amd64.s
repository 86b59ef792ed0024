#include "textflag.h"

// func call(fn, arg, top unsafe.Pointer)
//
// C keeps R12, in which Go's stack pointer is meanwhile. The assembler's wrapper restores what Go expects in R14 and X15.
TEXT ·call(SB), NOSPLIT, $0-24
	MOVQ fn+0(FP), AX
	MOVQ arg+8(FP), DI
	MOVQ top+16(FP), CX
	MOVQ SP, R12
	MOVQ CX, SP
	ANDQ $~15, SP
	CLD
	CALL AX
	MOVQ R12, SP
	RET
