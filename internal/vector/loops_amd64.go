package vector

import (
	"reflect"

	"golang.org/x/sys/cpu"
)

// loops are those of this machine. An int has 64 bits on it.
var loops = func() map[key]Loop {
	if !cpu.X86.HasAVX2 {
		return nil
	}
	return map[key]Loop{
		{Sum, reflect.Int8}: sum8, {Sum, reflect.Uint8}: sum8,
		{Sum, reflect.Int16}: sum16, {Sum, reflect.Uint16}: sum16,
		{Sum, reflect.Int32}: sum32, {Sum, reflect.Uint32}: sum32,
		{Sum, reflect.Int64}: sum64, {Sum, reflect.Uint64}: sum64,
		{Sum, reflect.Int}: sum64, {Sum, reflect.Uint}: sum64,
		{Sum, reflect.Float32}: sumFloat32, {Sum, reflect.Float64}: sumFloat64,

		{Prod, reflect.Int16}: prod16, {Prod, reflect.Uint16}: prod16,
		{Prod, reflect.Int32}: prod32, {Prod, reflect.Uint32}: prod32,
		{Prod, reflect.Float32}: prodFloat32, {Prod, reflect.Float64}: prodFloat64,

		{Min, reflect.Int8}: minInt8, {Min, reflect.Uint8}: minUint8,
		{Min, reflect.Int16}: minInt16, {Min, reflect.Uint16}: minUint16,
		{Min, reflect.Int32}: minInt32, {Min, reflect.Uint32}: minUint32,
		{Min, reflect.Int64}: minInt64, {Min, reflect.Int}: minInt64,
		{Min, reflect.Float32}: minFloat32, {Min, reflect.Float64}: minFloat64,

		{Max, reflect.Int8}: maxInt8, {Max, reflect.Uint8}: maxUint8,
		{Max, reflect.Int16}: maxInt16, {Max, reflect.Uint16}: maxUint16,
		{Max, reflect.Int32}: maxInt32, {Max, reflect.Uint32}: maxUint32,
		{Max, reflect.Int64}: maxInt64, {Max, reflect.Int}: maxInt64,
		{Max, reflect.Float32}: maxFloat32, {Max, reflect.Float64}: maxFloat64,
	}
}()

//go:noescape
func sum8(acc, in []byte) (done int)

//go:noescape
func sum16(acc, in []byte) (done int)

//go:noescape
func sum32(acc, in []byte) (done int)

//go:noescape
func sum64(acc, in []byte) (done int)

//go:noescape
func sumFloat32(acc, in []byte) (done int)

//go:noescape
func sumFloat64(acc, in []byte) (done int)

//go:noescape
func prod16(acc, in []byte) (done int)

//go:noescape
func prod32(acc, in []byte) (done int)

//go:noescape
func prodFloat32(acc, in []byte) (done int)

//go:noescape
func prodFloat64(acc, in []byte) (done int)

//go:noescape
func minInt8(acc, in []byte) (done int)

//go:noescape
func maxInt8(acc, in []byte) (done int)

//go:noescape
func minInt16(acc, in []byte) (done int)

//go:noescape
func maxInt16(acc, in []byte) (done int)

//go:noescape
func minInt32(acc, in []byte) (done int)

//go:noescape
func maxInt32(acc, in []byte) (done int)

//go:noescape
func minUint8(acc, in []byte) (done int)

//go:noescape
func maxUint8(acc, in []byte) (done int)

//go:noescape
func minUint16(acc, in []byte) (done int)

//go:noescape
func maxUint16(acc, in []byte) (done int)

//go:noescape
func minUint32(acc, in []byte) (done int)

//go:noescape
func maxUint32(acc, in []byte) (done int)

//go:noescape
func minInt64(acc, in []byte) (done int)

//go:noescape
func maxInt64(acc, in []byte) (done int)

//go:noescape
func minFloat32(acc, in []byte) (done int)

//go:noescape
func maxFloat32(acc, in []byte) (done int)

//go:noescape
func minFloat64(acc, in []byte) (done int)

//go:noescape
func maxFloat64(acc, in []byte) (done int)
