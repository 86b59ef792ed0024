package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Write makes data the content of the file path. It makes missing directories. mode is the file's new
// permissions; 0 keeps the present ones, or gives a new file those of the umask.
//
// Write opens and writes a path that is not a regular file, and waits as the open does: at a FIFO for
// a reader. It does not replace this process's standard output or error either: the text printed so
// far would be lost.
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
	f, err := pending(path, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.CloseAtomicallyReplace()
	}
	return errors.Join(err, f.Cleanup())
}

// Check returns the reason for which [Write] could not write to path. It makes missing directories,
// and leaves the file at the path untouched: the reader of a FIFO does not notice. A nil error is
// no promise, since disks fill up.
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
	f, err := pending(path, 0)
	if err != nil {
		return err
	}
	return f.Cleanup()
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

// writeTo writes to an existing file.
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

// target is the path at the end of links; no file need exist there. The directory is not cleaned:
// the kernel resolves .. after a link.
func target(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or no file: making it reports other errors
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
	return "", &fs.PathError{Op: "write", Path: path, Err: unix.ELOOP}
}

// pending opens the file that is to replace the one at path, in the same directory, which it makes too.
func pending(path string, mode os.FileMode) (*renameio.PendingFile, error) {
	path, err := target(path)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	permissions := []renameio.Option{renameio.WithPermissions(0o666), renameio.WithExistingPermissions()}
	if mode != 0 {
		permissions = []renameio.Option{renameio.WithStaticPermissions(mode)}
	}
	return renameio.NewPendingFile(filepath.Join(dir, name), append(permissions, renameio.WithTempDir(dir))...)
}
