import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname, extname, join, relative, resolve } from 'node:path'

/*
 * `npm run check -- links`: checks that every relative link, heading anchor and source path of the Markdown pages
 * exists. Pages and decisions that code cites must exist too. Nothing may cite a document that is not in the
 * repository. No comment may begin with "Of" or "That", because such a sentence has no subject.
 */

/** The check reads these folders below the root. */
const places = ['adapters', 'bench', 'docs', 'samples', 'scripts', 'src', 'test']
const skipped = new Set(['node_modules', 'data', 'pins', 'replay', 'planted', 'links.test.ts'])
const readable = new Set(['.md', '.ts', '.tsx', '.py', '.mjs', '.sh', '.sql', '.json', '.jsonc', '.yml'])

/** A source path in backticks in a page. A path with a glob pattern does not match. */
const sourcePath = /`((?:adapters|bench|samples|scripts|src|test)\/[\w./-]+)`/g
/** Matches citations of documents that are not in the repository. */
const absent = /\b(?:contract|design|specification)(?: sections?\b|, ["“])/gi
/** A comment that begins without a subject. */
const withoutSubject = /(?:\/\*\*?|\/\/|--|#)[ \t]+(?:\*[ \t]+)?(Of|That) [a-z]/g
/** How many citations of absent documents each folder may still have. The list is empty and must stay empty. */
const stillAllowed: Readonly<Record<string, number>> = {}

function filesBelow(path: string): string[] {
  if (!statSync(path).isDirectory()) return readable.has(extname(path)) ? [path] : []
  return readdirSync(path)
    .filter((name) => !skipped.has(name))
    .flatMap((name) => filesBelow(join(path, name)))
}

const blank = (code: string): string => code.replaceAll(/[^\n]/g, ' ')
const withoutBlocks = (text: string): string => text.replaceAll(/^( *)(```|~~~).*?^\1\2$/gms, blank)
/** Returns the text with spaces in place of code. */
const withoutCode = (text: string): string => withoutBlocks(text).replaceAll(/`[^`\n]*`/g, blank)

/** Returns the anchors of a page's headings, in the form that GitHub makes. */
function anchorsOf(page: string): Set<string> {
  const anchors = new Set<string>()
  const text = withoutBlocks(readFileSync(page, 'utf8'))
  for (const [, heading = ''] of text.matchAll(/^#{1,6} +(.*?)#*$/gm)) {
    const slug = heading
      .trim()
      .toLowerCase()
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
      .replaceAll(' ', '-')
    const copies = [...anchors].filter((each) => each.replace(/-\d+$/, '') === slug).length
    anchors.add(copies === 0 ? slug : `${slug}-${copies}`)
  }
  return anchors
}

function targetProblem(target: string, from: string): string | null {
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? from : resolve(dirname(from), decodeURIComponent(path))
  if (!existsSync(file)) return `\`${target}\` does not exist`
  if (anchor === undefined || extname(file) !== '.md') return null
  return anchorsOf(file).has(anchor) ? null : `\`${target}\`: the page has no heading with this anchor`
}

/**
 * Returns one line for each problem in the files below `root`. `allowed` says how many citations of absent documents
 * each folder may have.
 */
export function findProblems(root: string, allowed = stillAllowed): string[] {
  const tops = readdirSync(root).filter((name) => name.endsWith('.md'))
  const files = [...tops, ...places]
    .map((name) => join(root, name))
    .filter(existsSync)
    .flatMap(filesBelow)
  const records = existsSync(join(root, 'docs/decisions')) ? readdirSync(join(root, 'docs/decisions')) : []
  const hasRecord = (number: string) => records.some((name) => name.startsWith(`${number.padStart(4, '0')}-`))
  const problems: string[] = []
  const cited = new Map<string, string[]>()
  for (const file of files) {
    const name = relative(root, file)
    const text = readFileSync(file, 'utf8')
    const say = (at: number, problem: string) =>
      problems.push(`${name}:${text.slice(0, at).split('\n').length}: ${problem}`)
    if (extname(file) === '.md') {
      for (const { 1: target = '', index } of withoutCode(text).matchAll(/\]\(<?([^)>\s]+)>?\)/g)) {
        if (/^[a-z]+:/i.test(target)) continue
        const problem = targetProblem(target, file)
        if (problem !== null) say(index, problem)
      }
      for (const { 1: path = '', index } of withoutBlocks(text).matchAll(sourcePath))
        if (!name.startsWith('test/') && !existsSync(join(root, path)))
          say(index, `\`${path}\` does not exist`)
    } else {
      for (const { 0: target, index } of text.matchAll(/\bdocs\/[\w./-]*\w(?:\.md|\.json)(?:#[\w-]+)?/g)) {
        const problem = targetProblem(target, join(root, 'README.md'))
        if (problem !== null) say(index, problem)
      }
      for (const { 1: word = '', index } of text.matchAll(withoutSubject))
        say(index, `a comment begins with \`${word}\`: name what it is about`)
    }
    for (const { 0: words, 1: number = '', index } of text.matchAll(/\bdecisions?[ /](\d{1,4})\b/gi))
      if (!hasRecord(number)) say(index, `\`${words}\` is no record of docs/decisions`)
    for (const { 0: words, index } of text.matchAll(absent)) {
      const folder = name.split('/')[0] ?? ''
      cited.set(folder, [
        ...(cited.get(folder) ?? []),
        `${name}:${text.slice(0, index).split('\n').length}: ${words}`,
      ])
    }
  }
  for (const [folder, lines] of cited) {
    const most = allowed[folder] ?? 0
    if (lines.length > most)
      problems.push(
        ...lines,
        `${folder} cites absent documents ${lines.length} times, at most ${most}: give the reason itself`,
      )
  }
  return problems
}

if (import.meta.main) {
  const problems = findProblems(join(import.meta.dirname, '..'))
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  process.exitCode = problems.length === 0 ? 0 : 1
}
