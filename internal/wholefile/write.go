package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write makes data the content of the file path. Directories that lack are made.
// mode is what the file's permissions are to be; 0 leaves those that it has, or
// what the umask leaves of a new one.
//
// What is no regular file is written to as it is, which waits where opening it
// does: at a FIFO for a reader. The file that is this process's standard output
// or error is not replaced either: what was printed would be lost.
func Write(path string, data []byte, mode os.FileMode) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && standard(info) != nil:
		_, err = standard(info).Write(data)
		return err
	case err == nil && !info.Mode().IsRegular():
		return writeTo(path, data)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err == nil && mode == 0 {
		mode = info.Mode().Perm()
	}
	if path, err = target(path); err != nil {
		return err
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	// Else a crash of the machine could leave the new name with no content.
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Check reports why [Write] could not write to path. It makes directories that
// lack, and leaves what is at the path untouched: the reader of a FIFO sees
// nothing of it. Disks fill up meanwhile: that there is no error is no promise.
func Check(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: unix.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		if err := unix.Access(path, unix.W_OK); err != nil {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if path, err = target(path); err != nil {
		return err
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// standard returns this process's standard output or error if the file is one
// of them.
func standard(info fs.FileInfo) *os.File {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if own, err := f.Stat(); err == nil && os.SameFile(own, info) {
			return f
		}
	}
	return nil
}

// writeTo writes to what is there.
func writeTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// maxLinks is how many links may lead from one to the next, as in the kernel.
const maxLinks = 40

// target is the path at the end of links; nothing need be there. The directory
// is not cleaned: what .. means behind a link is the kernel's business.
func target(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or nothing: what else is wrong shows when it is made
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
	return "", &fs.PathError{Op: "write", Path: path, Err: unix.ELOOP}
}

// beside makes a file of a random name in the directory of path, which it makes
// too. Its permissions are those that the umask leaves.
func beside(path string) (*os.File, error) {
	dir, _ := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	for range 100 {
		name := fmt.Sprintf("%s.%08x.part", path, rand.Uint32())
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, &fs.PathError{Op: "write", Path: path + ".*.part", Err: fs.ErrExist}
}
