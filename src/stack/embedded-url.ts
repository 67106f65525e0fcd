import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Whether the data folder has a PostgreSQL cluster of `npm start`. */
export const hasCluster = (dataDir: string): boolean => existsSync(join(dataDir, 'postgres', 'PG_VERSION'))

/** The address of a database of the embedded PostgreSQL. */
export const embeddedUrl = (port: number, user: string, password: string, database: string): string =>
  `postgresql://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`

/** The address with which the service uses the embedded PostgreSQL. */
export const embeddedAppUrl = (port: number, password: string): string =>
  embeddedUrl(port, 'countersign_app', password, 'countersign')
