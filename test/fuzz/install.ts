import { fileURLToPath } from 'node:url'
import { installPythonPackages } from '../support/python-packages.ts'

const requirements = fileURLToPath(new URL('requirements.txt', import.meta.url))

/** The folder for PYTHONPATH that contains schemathesis. */
export const ensureSchemathesis = (): Promise<string> => installPythonPackages(requirements, 'schemathesis')
