"""The pages of pyworkers inside a Flask application, with its session as their login: `python flask_pages.py 8000`."""

import os
import sys

from flask import Flask, redirect, request, session
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server

import goworkers_py as workers
from goworkers_py import web

app = Flask(__name__)
app.secret_key = os.environ.get("SECRET_KEY", "of the example alone")
PASSWORDS = {"root": os.environ.get("PASSWORD", "root"), "staff": os.environ.get("PASSWORD", "staff")}


@app.route("/login", methods=["GET", "POST"])
def login():
    if request.method == "POST" and PASSWORDS.get(request.form["user"]) == request.form["password"]:
        session["user"] = request.form["user"]
        return redirect("/jobs/")
    return "<form method=post><input name=user><input name=password type=password><button>Log in</button></form>"


def may(environ, action):
    with app.request_context(environ):
        user = session.get("user")
    if user is None:
        return False
    environ["REMOTE_USER"] = user  # for the audit
    return action == "view" or user == "root"


app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/jobs": web.application(authorize=may, title="Background jobs")})

if __name__ == "__main__":
    workers.configure(broker=os.environ.get("PYWORKERS_BROKER", "redis://localhost:6379/0"))
    server = make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True)
    print(f"http://127.0.0.1:{server.server_port}/jobs/", flush=True)
    server.serve_forever()
