/*
 * Commands of vi's command line that run nothing and read no code. They are written as in vi's help: `w[rite]` means
 * `w`, `wr` and so on up to `write`. All other commands count as scripts.
 */
const list = (text: string): readonly string[] => text.trim().split(/\s+/)

/** All accepted abbreviations of the listed names. */
const abbreviated = (text: string): ReadonlySet<string> =>
  new Set(
    list(text).flatMap((entry) => {
      const [, short = '', rest = ''] = /^([^[]*)\[?([^\]]*)/.exec(entry) ?? []
      return Array.from({ length: rest.length + 1 }, (_, length) => short + rest.slice(0, length))
    }),
  )

/** Words before a command that change how the command runs. */
export const modifiers: ReadonlySet<string> = abbreviated(
  'sil[ent] uns[ilent] noa[utocmd] kee[pmarks] keepa[lt] keepj[umps] keepp[atterns] loc[kmarks] nosw[apfile] conf[irm] hid[e]',
)

/**
 * Commands that are harmless, unless the argument begins with `!` (a program) or `=` (an expression), or contains a
 * backtick (the output of a shell command).
 */
export const harmless: ReadonlySet<string> = abbreviated(`
  q[uit] qa[ll] quita[ll] wq wqa[ll] x[it] xa[ll] exi[t] cq[uit] clo[se] on[ly]
  w[rite] wa[ll] up[date] sav[eas] r[ead] e[dit] ene[w] vie[w] f[ile] fin[d]
  n[ext] N[ext] p[rint] P[rint] prev[ious] fir[st] la[st] b[uffer] bn[ext] bp[revious] bd[elete] ls buffers files ar[gs]
  sp[lit] vs[plit] vne[w] tabe[dit] tabnew tabn[ext] tabp[revious] tabc[lose]
  diffu[pdate] diffo[ff] difft[his] diffs[plit]
  d[elete] y[ank] pu[t] m[ove] t co[py] j[oin] k ma[rk] nu[mber] l[ist] u[ndo] red[o] undoj[oin] ret[ab] sor[t]
  le[ft] ri[ght] ce[nter] noh[lsearch] star[tinsert] stopi[nsert] sl[eep] redr[aw] ve[rsion]
  reg[isters] mes[sages] h[elp] > < >> <<`)

/**
 * Commands that are harmless if the argument consists of plain words: `syntax on`. With a path or `include`, the
 * command loads a file of code.
 */
export const named: ReadonlySet<string> = abbreviated('sy[ntax] filet[ype] colo[rscheme]')

/** Commands like `s/pattern/text/`. */
export const substitutes: ReadonlySet<string> = abbreviated('s[ubstitute] sm[agic] sno[magic]')
/** Commands like `g/pattern/command`, which run another command. */
export const globals: ReadonlySet<string> = abbreviated('g[lobal] v[global]')
/** Commands that set an option of the editor. */
export const sets: ReadonlySet<string> = abbreviated('se[t] setl[ocal] setg[lobal]')

/** Editor options that name no program, file or expression. */
export const options: ReadonlySet<string> = new Set(
  list(`
    nu number rnu relativenumber list wrap et expandtab ts tabstop sw shiftwidth sts softtabstop tw textwidth wm
    ai autoindent si smartindent ci copyindent cin cindent sr shiftround ff fileformat ffs fileformats fenc fileencoding
    fencs fileencodings enc encoding bomb eol endofline fixeol fixendofline bin binary ft filetype syn syntax
    ic ignorecase scs smartcase hls hlsearch is incsearch gd gdefault magic ro readonly ma modifiable swf swapfile
    bk backup wb writebackup udf undofile cp compatible more hid hidden ru ruler lz lazyredraw mouse bg background cul
    cursorline cc colorcolumn spell vb visualbell nf nrformats fo formatoptions js joinspaces ve so scrolloff
    tgc termguicolors title ls laststatus sc showcmd smd showmode ul undolevels ut updatetime tm timeoutlen aw autowrite ar
    autoread all fdm foldmethod fen foldenable cb clipboard`),
)
