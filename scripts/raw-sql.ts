import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

/*
 * `npm run check -- sql`: checks that each raw SQL statement of six or more lines has its own file in src/db/queries.
 * Migrations are exempt. The check must also report exactly the statements that are planted in test/checks/planted.
 */

const mostLines = 5
const exempt = ['src/db/queries/', 'src/db/migrations/']
const statement = /^\s*(?:with|select|insert|update|delete|merge)\s/i

/** Counts the lines with text between the backticks. Lines of SQL inside `${}` count too. */
function linesOf(node: ts.TemplateLiteral, file: ts.SourceFile): number {
  const lines = node.getText(file).slice(1, -1).split('\n')
  return lines.filter((line) => line.trim() !== '').length
}

function isRawSql(node: ts.TemplateLiteral, parent: ts.Node, file: ts.SourceFile): boolean {
  if (ts.isTaggedTemplateExpression(parent)) return parent.tag.getText(file) === 'sql'
  return statement.test(node.getText(file).slice(1))
}

/** Returns one line of output for each long statement of the file. */
function longStatements(path: string, name: string): string[] {
  const file = ts.createSourceFile(name, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, false)
  const found: string[] = []
  const visit = (node: ts.Node, parent: ts.Node): void => {
    if (ts.isTemplateLiteral(node) && isRawSql(node, parent, file)) {
      const lines = linesOf(node, file)
      const { line } = file.getLineAndCharacterOfPosition(node.getStart(file))
      if (lines > mostLines)
        found.push(`${name}:${line + 1}: move this SQL of ${lines} lines to a file in src/db/queries`)
    }
    ts.forEachChild(node, (child) => visit(child, node))
  }
  visit(file, file)
  return found
}

function problemsBelow(root: string): { readonly files: number; readonly found: readonly string[] } {
  const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => relative(root, join(root, 'src', name)))
    .filter((name) => !exempt.some((folder) => name.startsWith(folder)))
  return { files: names.length, found: names.flatMap((name) => longStatements(join(root, name), name)) }
}

const root = fileURLToPath(new URL('..', import.meta.url))
const planted = problemsBelow(join(root, 'test', 'checks', 'planted')).found.map(
  (each) => each.split(': ')[0],
)
const expected = ['src/governance/raw-sql.ts:7', 'src/governance/raw-sql.ts:16']
const problems: string[] = []
if (planted.join() !== expected.join())
  problems.push(`of the planted statements ${expected.join(', ')} these were reported: ${planted.join(', ')}`)
const { files, found } = problemsBelow(root)
problems.push(...found)
process.stdout.write([...problems, `${files} files`, ''].join('\n'))
process.exitCode = problems.length === 0 && files > 0 ? 0 : 1
