"""The pages of pyworkers inside a FastAPI application, with its session as login: `python fastapi_pages.py 8000`."""

import os
import sys
from typing import Annotated

import uvicorn
from a2wsgi import WSGIMiddleware
from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.middleware.sessions import SessionMiddleware

import goworkers_py as workers
from goworkers_py import web

app = FastAPI()
app.add_middleware(SessionMiddleware, secret_key=os.environ.get("SECRET_KEY", "of the example alone"))
PASSWORDS = {"root": os.environ.get("PASSWORD", "root"), "staff": os.environ.get("PASSWORD", "staff")}


@app.get("/login", response_class=HTMLResponse)
def login_form() -> str:
    return "<form method=post><input name=user><input name=password type=password><button>Log in</button></form>"


@app.post("/login")
def login(request: Request, user: Annotated[str, Form()], password: Annotated[str, Form()]) -> RedirectResponse:
    if PASSWORDS.get(user) != password:
        return RedirectResponse("/login", 303)
    request.session["user"] = user
    return RedirectResponse("/jobs/", 303)


def may(environ, action):
    user = environ["asgi.scope"]["session"].get("user")
    if user is None:
        return False
    environ["REMOTE_USER"] = user  # for the audit
    return action == "view" or user == "root"


# Requests for the pages run in threads of their own, so that the broker's answers hold up no coroutine.
app.mount("/jobs", WSGIMiddleware(web.application(authorize=may, title="Background jobs")))

if __name__ == "__main__":
    workers.configure(broker=os.environ.get("PYWORKERS_BROKER", "redis://localhost:6379/0"))
    print(f"http://127.0.0.1:{sys.argv[1]}/jobs/", flush=True)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
