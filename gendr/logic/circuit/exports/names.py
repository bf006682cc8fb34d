"""Names that all languages of the exports understand.

Source: ISO/IEC 9899:2018, 6.4.1 and annex B, and 2023, 6.4.1; ISO/IEC 14882:2020, table 5; IEEE
1800-2017, annex B, which has all words of IEEE 1364-2005; IEEE 1076-2008, 15.10; POSIX.1-2017.
"""

from __future__ import annotations

import builtins
import keyword
import re

# Words of C, C++, SystemVerilog, VHDL and Graphviz, and what the sources use themselves; in small
# letters, since VHDL and Graphviz do not tell them from large ones.
_WORDS = frozenset(
    """
    abs accept_on access after alias alignas alignof all always always_comb always_ff
    always_latch and and_eq architecture array asm assert assign assume assume_guarantee
    attribute auto automatic before begin bind bins binsof bit bitand bitor block body bool
    break buf buffer bufif0 bufif1 bus byte case casex casez catch cell chandle char char16_t
    char32_t char8_t checker class clk clocking cmos co_await co_return co_yield compl component
    concept config configuration const const_cast constant consteval constexpr constinit
    constraint context continue cover covergroup coverpoint cross deassign decltype default
    defparam delete design digraph disable disconnect dist do double downto dynamic_cast edge
    else elsif end endcase endchecker endclass endclocking endconfig endfunction endgenerate
    endgroup endinterface endmodule endpackage endprimitive endprogram endproperty endsequence
    endspecify endtable endtask entity enum event eventually exit expect explicit export extends
    extern fairness false file final first_match float for force foreach forever fork forkjoin
    friend function gates generate generic genvar global goto graph group guarded highz0 highz1
    if iff ifnone ignore_bins illegal_bins implements implies import impure in incdir include
    inertial initial inline inout input inside instance int integer interconnect interface
    intersect is join join_any join_none label large latency let liblist library linkage literal
    local localparam logic long longint loop macromodule map matches medium mod modport module
    mutable namespace nand negedge nettype new next nexttime nmos node noexcept nor
    noshowcancelled not not_eq notif0 notif1 np null nullptr of on open operator or or_eq others
    out output outputs package packed parameter pmos port posedge postponed primitive priority
    private procedure process program property protected public pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence range rcmos
    real realtime record ref reg register reinterpret_cast reject reject_on release rem repeat
    report requires restrict restrict_guarantee return rnmos rol ror rpmos rtran rtranif0
    rtranif1 s_always s_eventually s_nexttime s_until s_until_with scalared select sequence
    severity shared short shortint shortreal showcancelled signal signed sizeof sla sll small
    soft solve specify specparam sra srl static static_assert static_cast std strict string
    strong strong0 strong1 struct subgraph subtype super supply0 supply1 switch sync_accept_on
    sync_reject_on table tagged task template then this thread_local thresholds throughout throw
    time timeprecision timeunit to tran tranif0 tranif1 transport tri tri0 tri1 triand trior
    trireg true try type typedef typeid typename typeof typeof_unqual unaffected union unique
    unique0 units unsigned until until_with untyped use using uwire var variable vectored view
    virtual vmode void volatile vprop vunit wait wait_order wand wchar_t weak weak0 weak1 when
    while wildcard wire with within wor x xnor xor xor_eq y
    """.split()
)
# What C's library, and POSIX, have outside of functions: a function of such a name would be called
# in the place of theirs by other parts of a program, if it compiles at all.
_LIBRARY = frozenset(
    """
    abort accept alarm aligned_alloc alloca asctime at_quick_exit atexit atof atoi atol atoll
    atomic_exchange atomic_fetch_add atomic_fetch_and atomic_fetch_or atomic_fetch_sub
    atomic_fetch_xor atomic_flag_clear atomic_flag_clear_explicit atomic_flag_test_and_set
    atomic_flag_test_and_set_explicit atomic_init atomic_is_lock_free atomic_load
    atomic_signal_fence atomic_store atomic_thread_fence bcmp bcopy brk bsearch btowc bzero
    c16rtomb c32rtomb call_once calloc chdir chmod chown chroot clearerr clock clock_t close
    closedir closelog cnd_broadcast cnd_destroy cnd_init cnd_signal cnd_t cnd_timedwait cnd_wait
    complex confstr connect creat crypt ctermid ctime daemon difftime dirfd div div_t dlclose
    dlerror dlopen dlsym double_t dprintf drem dup dup2 environ errno execl execle execlp execv
    execve execvp fchdir fchmod fchown fclose fcntl fdopen feclearexcept fegetenv
    fegetexceptflag fegetround feholdexcept fenv_t feof feraiseexcept ferror fesetenv
    fesetexceptflag fesetround fetestexcept feupdateenv fexcept_t fflush ffs fgetc fgetpos fgets
    fgetwc fgetws fileno finite float_t flock fopen fpclassify fpos_t fprintf fputc fputs fputwc
    fputws fread free freopen fscanf fseek fsetpos fstat fsync ftell ftok ftruncate fwide
    fwprintf fwrite fwscanf gamma getc getchar getcwd getegid getenv geteuid getgid
    gethostbyname gethostname getline getopt getpid getppid getpwnam getpwuid getuid getwc
    getwchar glob gmtime gmtime_r gsignal hcreate hdestroy herror hsearch htonl htons i386 iconv
    imaginary imaxabs imaxdiv imaxdiv_t index inet_addr initstate insque ioctl isalnum isalpha
    isascii isatty isblank iscntrl isdigit isfinite isgraph isgreater isgreaterequal isinf
    isless islessequal islessgreater islower isnan isnormal isprint ispunct isspace isunordered
    isupper iswalnum iswalpha iswblank iswcntrl iswctype iswdigit iswgraph iswlower iswprint
    iswpunct iswspace iswupper iswxdigit isxdigit j0 j1 jmp_buf jn jrand48 kill kill_dependency
    killpg labs lchown lconv ldiv ldiv_t lfind link linkat linux listen llabs lldiv lldiv_t
    localeconv localtime localtime_r lockf longjmp lrand48 lsearch lseek lstat madvise main
    malloc math_errhandling max_align_t mblen mbrlen mbrtoc16 mbrtoc32 mbrtowc mbsinit mbsrtowcs
    mbstate_t mbstowcs mbtowc memccpy memchr memcmp memcpy memmove memset mkdir mkfifo mknod
    mkstemp mktemp mktime mlock mmap mount mprotect msync mtx_destroy mtx_init mtx_lock mtx_t
    mtx_timedlock mtx_trylock mtx_unlock munlock munmap nanosleep nice nl_langinfo noreturn
    nrand48 ntohl ntohs offsetof once_flag openat opendir openlog optarg opterr optind optopt
    pathconf pause pclose perror pipe poll popen pread printf psignal ptrace ptrdiff_t putc
    putchar putenv puts putwc putwchar pwrite qsort quick_exit raise rand_r random read readdir
    readlink readv realloc realpath recv recvfrom regcomp regexec regfree remove remque rename
    rewind rindex rmdir sbrk scalb scanf seed48 send sendto setbuf setegid setenv seteuid setgid
    setjmp setlocale setpgid setsid setstate setuid setvbuf shutdown sig_atomic_t sigaction
    sigaddset sighold sigmask signbit significand sigpause sigprocmask sigset sigwait size_t
    sleep snprintf sockatmark socket socketpair splice sprintf srand srand48 srandom sscanf
    ssignal ssize_t stat statvfs stderr stdin stdout stpcpy strcasecmp strcat strchr strcmp
    strcoll strcpy strcspn strdup strerror strfmon strftime strlcat strlcpy strlen strncasecmp
    strncat strncmp strncpy strndup strnlen strpbrk strrchr strsep strsignal strspn strstr
    strtod strtof strtoimax strtok strtol strtold strtoll strtoul strtoull strtoumax strxfrm
    swab swapoff swapon swprintf swscanf symlink sync syscall sysconf sysinfo syslog system
    tcgetattr tcsetattr tdelete tee telldir tempnam tfind thrd_create thrd_current thrd_detach
    thrd_equal thrd_exit thrd_join thrd_sleep thrd_t thrd_yield time_t times timespec
    timespec_get timezone tm tmpfile tmpnam toascii tolower toupper towctrans towlower towupper
    truncate tsearch tss_create tss_delete tss_get tss_set tss_t ttyname twalk tzset ualarm
    ulimit umask umount uname ungetc ungetwc unix unlink unreachable unsetenv usleep ustat utime
    utimes va_arg va_copy va_end va_list va_start valloc vfork vfprintf vfscanf vfwprintf
    vfwscanf vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf vwscanf
    waitid waitpid wcrtomb wcscat wcschr wcscmp wcscoll wcscpy wcscspn wcsftime wcslen wcsncat
    wcsncmp wcsncpy wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstoimax wcstok
    wcstol wcstold wcstoll wcstombs wcstoul wcstoull wcstoumax wcsxfrm wctob wctomb wctrans
    wctrans_t wctype wctype_t wcwidth wint_t wmemchr wmemcmp wmemcpy wmemmove wmemset wprintf
    write writev wscanf y0 y1 yn
    """.split()
)
# Functions that have a form for float and for long double.
_MATHEMATICS = frozenset(
    """
    acos acosh asin asinh atan atan2 atanh cabs cacos cacosh carg casin casinh catan catanh cbrt
    ccos ccosh ceil cexp cimag clog conj copysign cos cosh cpow cproj creal csin csinh csqrt
    ctan ctanh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb
    ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
    nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh
    tgamma trunc
    """.split()
)
# Macros of C's headers, names that POSIX keeps for types, those that compilers keep for themselves,
# and those of wires: in Verilator a module may not have the name of one.
_RESERVED = re.compile(
    r"NULL|EOF|I|BUFSIZ|RAND_MAX|[A-Z0-9_]+_(MAX|MIN|WIDTH|C)|E[A-Z0-9]+|SIG[A-Z_]+|"
    r"\w+_t|_\w*|\w*__\w*|\w*_|(sum|[bcgilmsx])[0-9]+(_\w+)?"
)


def check_name(name: str) -> str:
    """Return a name if it is one in C, Verilog, VHDL and Python.

    Raises:
        TypeError: if it is no text.
        ValueError: if it is not.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {type(name).__name__}")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be letters, digits and _, a letter first, got {name!r}")
    is_function = name in _LIBRARY | _MATHEMATICS or (
        name[:-1] in _MATHEMATICS and name[-1] in "fl"
    )
    if name.lower() in _WORDS or keyword.iskeyword(name) or hasattr(builtins, name) or is_function:
        raise ValueError(
            "name must not be a word of C, Verilog, VHDL, Python or Graphviz, or a function of "
            f"their libraries, got {name!r}; add a word, such as {name.lower()}_circuit"
        )
    if _RESERVED.fullmatch(name):
        raise ValueError(
            "name must not begin or end with _, have __, or be one that C keeps for macros and "
            f"types or the circuit for wires, got {name!r}; take another, such as my_circuit"
        )
    return name
