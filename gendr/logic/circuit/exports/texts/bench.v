@@ begin
module @name@_bench;
  localparam ROWS = @rows@, WIDTH = @width@, SIZE = @size@;
  reg clk = 0;
  reg [WIDTH-1:0] x, rows [0:ROWS-1];
  reg [SIZE-1:0] wanted [0:ROWS-1];
  wire [SIZE-1:0] found;
  task check(input integer row, input [SIZE-1:0] got);
    if (got !== wanted[row]) begin
      $display("FAIL: row %0d gives %0h in place of %0h", row, got, wanted[row]);
      $finish;
    end
  endtask
@@ plain
  integer k, wait_for;
  @name@ dut(@pins@);
  initial begin
    #0 wait_for = @wait@;  // after the rows are there
    for (k = 0; k < ROWS + wait_for; k = k + 1) begin
      x = rows[k < ROWS ? k : 0];
      #1 clk = 1;
      #1 clk = 0;
      if (k >= wait_for) check(k - wait_for, found);
    end
    $display("PASS: %0d rows", ROWS);
    $finish;
  end
@@ stream
  reg resetn = 0, valid = 0, ready = 0;
  wire taken, given, last;
  integer sent = 0, got = 0, seed = 1;
  @name@ dut(.aclk(clk), .aresetn(resetn), .s_axis_tdata(x), .s_axis_tvalid(valid),
    .s_axis_tlast(sent % 3 == 2), .s_axis_tready(taken), .m_axis_tdata(found),
    .m_axis_tvalid(given), .m_axis_tlast(last), .m_axis_tready(ready));
  always #1 clk = ~clk;
  initial begin
    #4 resetn = 1;
    #(20 * ROWS + 2000) $display("FAIL: %0d of %0d results came", got, ROWS);
    $finish;
  end
  // What is offered stays until it is taken; neither side waits for the other one.
  always @(negedge clk) if (resetn) begin
    if (!valid && sent < ROWS) valid = $random(seed) % 4 != 0;
    ready = $random(seed) % 3 == 0;
    x = valid ? rows[sent] : {WIDTH{1'bx}};
  end
  always @(posedge clk) if (resetn) begin
    if (valid && taken) begin
      sent <= sent + 1;
      valid <= 0;
    end
    if (given) begin  // also while it waits
      if (got == ROWS || last !== (got % 3 == 2)) begin
        $display("FAIL: result %0d of %0d with tlast %b", got, ROWS, last);
        $finish;
      end
      check(got, found);
      if (ready) got = got + 1;
    end
    if (sent == ROWS && got == ROWS) begin
      $display("PASS: %0d rows", ROWS);
      $finish;
    end
  end
