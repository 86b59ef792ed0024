package banyan_test
import ("testing";"fmt";"os";"strconv")
func TestDbg(t *testing.T) {
	c := &chaos{seed: 151, n: 11, perNode: 3, slow: 922_000_000, program: []chaosOp{{doRevoke, 0x56ce226f1a451607}, {doWork, 0xafd55d87f5e0435f}}}
	if n, err := strconv.Atoi(os.Getenv("N")); err == nil { c.n = n }
	r, err := c.run()
	fmt.Println(err)
	k := &chaosRank{chaosRun: r}
	k.op = c.program[0]
	for i := range c.n { fmt.Print(k.draw(i,3)==0, " ") }
	k.op = c.program[1]
	fmt.Println(k.draw(-1,4), k.draw(-2,3), k.draw(-3,40000), k.draw(-4, c.n), r.said)
}
