import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import express, { type Router } from 'express'

/*
 * The console's style sheet and script. Their addresses contain a hash of their contents, so browsers may keep them.
 */

const types = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' } as const

function read(kind: keyof typeof types) {
  const bytes = readFileSync(fileURLToPath(new URL(`../../console/assets/console.${kind}`, import.meta.url)))
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  return { bytes, path: `/console/assets/${hash}.${kind}`, type: types[kind] }
}

export interface Assets {
  readonly style: string
  readonly script: string
  readonly router: Router
}

export function consoleAssets(): Assets {
  const files = { style: read('css'), script: read('js') }
  const router = express.Router({ caseSensitive: true, strict: true })
  for (const { bytes, path, type } of Object.values(files))
    router.get(path, (_request, response) => {
      response.setHeader('Content-Type', type)
      response.setHeader('Cache-Control', 'public, max-age=31536000, immutable')
      response.end(bytes)
    })
  return { style: files.style.path, script: files.script.path, router }
}
