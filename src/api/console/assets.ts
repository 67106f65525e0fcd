import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import express, { type Router } from 'express'

/*
 * The console's style sheet and script. Their addresses contain a hash of their contents, so browsers may keep them.
 */

/** Parts of the style sheet, in their order: a later part can override an earlier part. */
const styles = [
  'base',
  'layout',
  'header',
  'forms',
  'badges',
  'values',
  'inbox',
  'decide',
  'diff',
  'picture',
  'account',
] as const
const files = {
  style: { names: styles.map((name) => `style/${name}.css`), ending: 'css', type: 'text/css; charset=utf-8' },
  script: { names: ['console.js'], ending: 'js', type: 'text/javascript; charset=utf-8' },
} as const

function read({ names, ending, type }: (typeof files)[keyof typeof files]) {
  const texts = names.map((name) =>
    readFileSync(fileURLToPath(new URL(`../../console/assets/${name}`, import.meta.url)), 'utf8'),
  )
  const bytes = Buffer.from(texts.join('\n'))
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  return { bytes, path: `/console/assets/${hash}.${ending}`, type }
}

export interface Assets {
  readonly style: string
  readonly script: string
  readonly router: Router
}

export function consoleAssets(): Assets {
  const [style, script] = [read(files.style), read(files.script)]
  const router = express.Router({ caseSensitive: true, strict: true })
  for (const { bytes, path, type } of [style, script])
    router.get(path, (_request, response) => {
      response.setHeader('Content-Type', type)
      response.setHeader('Cache-Control', 'public, max-age=31536000, immutable')
      response.end(bytes)
    })
  return { style: style.path, script: script.path, router }
}
