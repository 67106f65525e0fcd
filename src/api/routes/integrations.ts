import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { z } from 'zod'
import { publicBase } from '../../shared/config.ts'
import { projectRoot } from '../../shared/project-root.ts'
import { ApiError } from '../errors.ts'
import { ok, publicRoute } from '../route.ts'

const tag = 'Service'

interface Adapter {
  readonly name: string
  readonly bytes: Buffer
  readonly sha256: string
}

let known: ReadonlyMap<string, Adapter> | undefined

/** Reads the released adapter files at the first call, and keeps them in memory. */
function adapters(): ReadonlyMap<string, Adapter> {
  if (known !== undefined) return known
  const folder = join(projectRoot(), 'adapters')
  const names = readdirSync(folder).filter((name) => /^service_[a-z]+\.py$/.test(name))
  known = new Map(
    names.sort().map((name) => {
      const bytes = readFileSync(join(folder, name))
      return [name, { name, bytes, sha256: createHash('sha256').update(bytes).digest('hex') }]
    }),
  )
  return known
}

const { version } = createRequire(import.meta.url)(join(projectRoot(), 'package.json')) as { version: string }

const getIntegrations = publicRoute({
  key: 'GET /integrations',
  summary: 'The adapters for agent clients, with their checksums',
  tag,
  responses: {
    200: z.strictObject({
      files: z.array(
        z.strictObject({
          name: z.string(),
          version: z.string(),
          sha256: z.string(),
          size: z.int(),
          url: z.string(),
        }),
      ),
    }),
  },
  async open({ config }) {
    const files = [...adapters().values()].map(({ name, bytes, sha256 }) => ({
      name,
      version,
      sha256,
      size: bytes.length,
      url: `${publicBase(config)}/api/v1/integrations/${name}`,
    }))
    return ok({ files })
  },
})

const getIntegration = publicRoute({
  key: 'GET /integrations/{file}',
  summary: 'One adapter file, exactly as released',
  tag,
  contentType: 'text/x-python',
  responses: { 200: null },
  async open(_context, _services, request, response) {
    const adapter = adapters().get(String(request.params['file']))
    if (adapter === undefined)
      throw new ApiError('not_found', 'this adapter does not exist: `GET /integrations` lists them')
    const etag = `"${adapter.sha256}"`
    response.setHeader('ETag', etag)
    if (request.headers['if-none-match'] === etag) {
      response.status(304).end()
      return null
    }
    response.setHeader('Content-Type', 'text/x-python; charset=utf-8')
    response.setHeader('Content-Disposition', `attachment; filename="${adapter.name}"`)
    response.status(200).end(adapter.bytes)
    return null
  },
})

export const integrationRoutes = [getIntegrations, getIntegration]
